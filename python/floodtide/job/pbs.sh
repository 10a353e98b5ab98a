#PBS -N {{ name[:15] }}
#PBS -l select={{ job.nodes }}:ncpus={{ job.cores_per_node }}:mpiprocs={{ job.ranks_per_node }}:ompthreads={{ job.threads }}
#PBS -l place=scatter:excl
#PBS -l walltime={{ time }}
{% if job.array > 1 %}
#PBS -J 0-{{ job.array - 1 }}
{% endif %}
#PBS -j oe
{% for option in job.options %}
#PBS {{ option }}
{% endfor %}
