# Files. Volumes are only read and rank 0 alone writes, so HDF5 needs no locks of the shared file system; no rank
# writes byte code beside the modules.
export HDF5_USE_FILE_LOCKING=FALSE PYTHONDONTWRITEBYTECODE=1

{% if job.environment.endswith(archives) %}
# The environment is unpacked on each node's own disk by one rank, the others wait; later jobs find it there.
archive={{ job.environment | quote }}
unpacked="floodtide-$(id -un)-$(stat -c %Y-%s "$archive")" || exit 1
# shellcheck disable=SC2016  # expanded on the nodes
program=(bash -c '
  folder=$(dirname "$(mktemp --dry-run)")/$1
  mkdir -p "$folder" || exit 1
  (
    flock 9
    [ -e "$folder/.complete" ] || { tar -xf "$2" -C "$folder" && touch "$folder/.complete"; }
  ) 9>"$folder/.lock" || exit 1
  shift 2
  exec "$folder/bin/python" -m floodtide "$@"' floodtide "$unpacked" "$archive")
{% elif job.environment.endswith(images) %}
# The environment is one file: a node opens it once, and looks for modules inside of it.
program=(apptainer exec {{ job.environment | quote }} python -m floodtide)
{% elif job.environment %}
program=({{ (job.environment + "/bin/python") | quote }} -m floodtide)
{% else %}
program=(floodtide)
{% endif %}
