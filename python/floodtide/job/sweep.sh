#!/bin/bash
{% include head %}
# Written by floodtide {{ version }}: runs the trainings of a sweep, in {{ job.array }} tasks of a job array.
# Submit it from the folder it was written in:
#   {{ "sbatch" if head == "slurm.sh" else "qsub" }} {{ script | quote }}
# A task that reaches its time limit saves its trainings. Submit the script again to go on.
set -u
{% if head == "slurm.sh" %}
cd "$SLURM_SUBMIT_DIR" || exit 1
task=$SLURM_ARRAY_TASK_ID
{% else %}
cd "$PBS_O_WORKDIR" || exit 1
task=${PBS_ARRAY_INDEX:-0}
{% endif %}

{% for line in job.setup %}
{{ line }}
{% endfor %}
# Threads without work sleep. The command below gives each training its threads.
export OMP_PROC_BIND=false{% for name, value in job.waiting.items() %} {{ name }}={{ value }}{% endfor %}

{% include "environment.sh" %}

# The first SIGTERM makes all running trainings save and stop.
"${program[@]}" sweep{% for argument in arguments %} {{ argument | quote }}{% endfor %} --part "$task/{{ job.array }}" &
sweep=$!
trap 'echo "asked to stop: saving"; kill -TERM "$sweep"' TERM
{% if head == "pbs.sh" %}
# PBS gives no signal in time: a timer does, {{ job.margin_s }} s before the limit.
(
  sleep $(({{ job.time_s - job.margin_s }} - SECONDS)) &
  trap 'kill $! 2>/dev/null' EXIT
  trap 'exit' TERM
  wait $! && kill -TERM $$
) &
timer=$!
{% endif %}
wait "$sweep"
status=$?
while kill -0 "$sweep" 2>/dev/null; do  # a signal has ended the wait, not the sweep
  wait "$sweep"
  status=$?
done
{% if head == "pbs.sh" %}
kill "$timer" 2>/dev/null
{% endif %}
exit "$status"
