#SBATCH --job-name={{ name }}
#SBATCH --nodes={{ job.nodes }}
#SBATCH --ntasks-per-node={{ job.ranks_per_node }}
{% if job.threads %}
#SBATCH --cpus-per-task={{ job.threads }}
{% endif %}
#SBATCH --time={{ time }}
#SBATCH --signal=B:TERM@{{ job.margin_s }}
#SBATCH --exclusive
#SBATCH --hint=nomultithread
{% if job.array %}
#SBATCH --array=0-{{ job.array - 1 }}
#SBATCH --output={{ name }}-%A_%a.log
{% else %}
#SBATCH --output={{ name }}-%j.log
{% endif %}
{% for option in job.options %}
#SBATCH {{ option }}
{% endfor %}
