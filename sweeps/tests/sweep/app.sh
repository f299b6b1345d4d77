#!/usr/bin/env bash
# A stand-in for an application with the layer in its process. What happens, and what the layer writes, is the stand-in
# engine's affair; this one prints for people, on both streams, and something else each time.
set -u
here=$(dirname "$0")
# As a driver of mesa-patches does where it is asked for its knobs.
[[ -e $here/behaviour/knobs && -n ${LP_BARRIER_HELP-} ]] && cat "$here/behaviour/knobs" >>"$LP_BARRIER_HELP"
said=$("$here/engine.sh" app "$@") || exit $?
case $said in
  *'"logits_digest": "'*) digest=${said#*'"logits_digest": "'} digest=${digest%%'"'*} ;;
  *) echo "$said"; exit 0 ;;
esac
perplexity=${said#*'"perplexity": {"value": '} perplexity=${perplexity%%,*}
echo "started at $RANDOM$RANDOM"
echo "the answer is $digest"
echo "final estimate: PPL = $perplexity +/- 0.1"
echo "tg32: 16.5 t/s" >&2
