#PBS -N {{ name[:15] }}
#PBS -l select={{ job.nodes }}:ncpus={{ job.cores_per_node }}:mpiprocs={{ job.ranks_per_node }}:ompthreads={{ job.threads }}
#PBS -l place=scatter:excl
#PBS -l walltime={{ time }}
#PBS -j oe
# Further options of PBS, such as #PBS -q long, belong here.
