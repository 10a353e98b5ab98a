#SBATCH --job-name={{ name }}
#SBATCH --nodes={{ job.nodes }}
#SBATCH --ntasks-per-node={{ job.ranks_per_node }}
{% if job.threads %}
#SBATCH --cpus-per-task={{ job.threads }}
{% endif %}
#SBATCH --time={{ time }}
#SBATCH --signal=B:TERM@{{ margin_s }}
#SBATCH --exclusive
#SBATCH --hint=nomultithread
#SBATCH --output={{ name }}-%j.log
# Further options of Slurm, such as #SBATCH --partition=long, belong here.
