set -o errexit
{
if (: >>"${RUNTIME_LOG_PIPE:-}") 2>/dev/null; then exec >>"$RUNTIME_LOG_PIPE" 2>&1; fi
if ! command -v tensorboard >/dev/null 2>&1; then
pip install tensorboard || pip3 install tensorboard || :
fi
v=$(tensorboard --version_tb) || v=
case "$v" in
1.*) exec tensorboard '--logdir=only:/tmp/only' '--port=6006' ;;
2.*) exec tensorboard '--logdir=/tmp/only' '--port=6006' --bind_all ;;
*) printf 'tensorboard plugin: there is no tensorboard 1 or 2: %s\n' "$v" >&2 ;;
esac
} </dev/null &
