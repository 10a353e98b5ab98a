#!/bin/bash
{% include head %}
# Written by floodtide {{ version }}: trains until {{ steps }} steps are done, in as many jobs as that takes.
# Submit it from the folder it was written in:
#   {{ "sbatch" if head == "slurm.sh" else "qsub" }} {{ script | quote }}
set -u
{% if head == "slurm.sh" %}
cd "$SLURM_SUBMIT_DIR" || exit 1
job=$SLURM_JOB_ID
submit_next() {
  sbatch --parsable --dependency="afterany:$job" --export="ALL,FLOODTIDE_JOB=$1" "$script" | cut -d ';' -f 1
}
cancel() { scancel "$1"; }
{% else %}
cd "$PBS_O_WORKDIR" || exit 1
job=$PBS_JOBID
submit_next() { qsub -W depend="afterany:$job" -v FLOODTIDE_JOB="$1" "$script"; }
cancel() { qdel "$1"; }
{% endif %}

script={{ script | quote }}
run_dir={{ run_dir | quote }}
steps={{ steps }}
ranks={{ job.ranks }}
number=${FLOODTIDE_JOB:-1}  # of this job in its row
max_jobs=20  # 1: the script does not submit itself again

# Steps of the newest checkpoint; the training writes one at its end.
steps_done() {
  local name most=0
  for name in "$run_dir"/checkpoints/step-*.h5; do
    name=${name##*/step-}
    name=${name%.h5}
    [[ $name =~ ^[0-9]+$ ]] && ((name > most)) && most=$name
  done
  echo "$most"
}
before=$(steps_done)
if ((before >= steps)); then
  echo "all $steps steps are done"
  exit 0
fi

# The next job waits for this one from now on: it comes also if this one is killed with its nodes.
next=
if ((number < max_jobs)); then
  next=$(submit_next $((number + 1))) || echo "no next job could be submitted" >&2
fi

# Commands that each job needs first, such as `module load mpich`, belong here.

# Threads. The launcher gives each rank its cores; OpenMP does not bind threads to single cores, because the threads
# that read files and talk to other ranks would start on the main thread's one. Threads without work sleep.
{% if job.threads %}
export OMP_NUM_THREADS={{ job.threads }}
{% else %}
cores=$(lscpu -p=core,socket | grep -v '^#' | sort -u | wc -l)  # of this node, taken for those of all
export OMP_NUM_THREADS=$((cores / {{ job.ranks_per_node }}))
{% endif %}
export OMP_PROC_BIND=false OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0
{% include "environment.sh" %}
{% if head == "slurm.sh" %}
launcher=(srun --ntasks="$ranks" --cpus-per-task="$OMP_NUM_THREADS" --cpu-bind=cores --kill-on-bad-exit=1)
{% else %}
launcher=(mpiexec -n "$ranks")  # add what binds ranks to cores: -bind-to core:{{ job.threads or 8 }}, --map-by slot:PE={{ job.threads or 8 }}
{% endif %}

# SIGUSR1 makes all ranks save and stop; launchers hand it on to them.
"${launcher[@]}" "${program[@]}" train{% for argument in arguments %} {{ argument | quote }}{% endfor %} &
training=$!
trap 'echo "asked to stop: saving"; kill -USR1 "$training"' TERM
{% if head == "pbs.sh" %}
# PBS gives no signal in time: a timer does, {{ margin_s }} s before the limit.
(
  sleep $(({{ job.time_s - margin_s }} - SECONDS)) &
  trap 'kill $! 2>/dev/null' EXIT
  trap 'exit' TERM
  wait $! && kill -TERM $$
) &
timer=$!
{% endif %}
wait "$training"
status=$?
while kill -0 "$training" 2>/dev/null; do  # a signal has ended the wait, not the training
  wait "$training"
  status=$?
done
{% if head == "pbs.sh" %}
kill "$timer" 2>/dev/null
{% endif %}

# The next job goes on if there is something left to do and this job has got further.
after=$(steps_done)
echo "steps done: $before before this job, $after of $steps now; exit status of the training $status"
if ((after < steps && after > before && status != 2)); then
  [ -n "$next" ] && echo "job $next goes on" || echo "submit $script again to go on"
  exit "$status"
fi
[ -n "$next" ] && cancel "$next"
((after >= steps)) && exit "$status"
echo "this job has saved nothing new: look above for the reason" >&2
exit $((status == 0 ? 1 : status))
