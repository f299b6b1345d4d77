#!/usr/bin/env bash
# A stand-in for the engine with the layer in its process: prints the documents that both would write, at once.
#
# The folder beside it holds what a test wants: info.json is printed by `info`; behaviour/NAME, where NAME is the run
# (without, POLICY, POLICY,shuffle=S, POLICY,shuffle=S,drop=K, POLICY,setup), holds one word of the list at the end; behaviour/drop
# stands for all drops that have none of their own. behaviour/knobs is what the driver announces. Every run is logged.
#
# POLICY,soak is a repetition. As the first argument says, it also plays the programs of other gates: ops, backend-ops,
# pictures (POLICY,window in a window); and the engine with
# validation below the layer, where VK_INSTANCE_LAYERS says so. Their runs have the program's name at the end.
set -u
here=$(dirname "$0")
if [[ $1 == info ]]; then
  [[ -e $here/behaviour/info ]] && { cat "$here/behaviour/info" >&2; exit 1; }
  # As a driver of mesa-patches does where it is asked for its knobs.
  [[ -e $here/behaviour/knobs && -n ${LP_BARRIER_HELP-} ]] && cat "$here/behaviour/knobs" >>"$LP_BARRIER_HELP"
  cat "$here/info.json"
  exit 0
fi

# As the loader does: the layer is there only if its name is asked for and a manifest of that name is found.
layer=0
if [[ ":${VK_INSTANCE_LAYERS-}:" == *:zinc_barrier:* ]]; then
  IFS=: read -ra folders <<<"${VK_LAYER_PATH-}"
  for folder in "${folders[@]}"; do
    grep -qs '"zinc_barrier"' "$folder"/*.json && layer=1
  done
fi
policy=${ZINC_BARRIER_POLICY-alias-only} shuffle=${ZINC_BARRIER_SHUFFLE-off} drop=${ZINC_BARRIER_MUTATE-}
if ((layer)); then
  run=$policy
  [[ $shuffle != off ]] && run+=",shuffle=$shuffle"
  [[ -n $drop ]] && run+=",drop=$drop"
else
  run=without
fi
# The device that it runs on: a file `device` holds another name.
device="Fake CPU"
[[ -e $here/device ]] && device=$(<"$here/device")
tokens=32
validated=0
if [[ ":${VK_INSTANCE_LAYERS-}:" == *:VK_LAYER_KHRONOS_validation:* ]]; then
  validated=1 run+=,validation
elif [[ "$*" == *--window* ]]; then
  run+=,window
  # A window needs a display that somebody started.
  [[ -n ${DISPLAY-} ]] || { echo "error: no display" >&2; exit 3; }
elif [[ $1 != perplexity && $1 != app ]]; then
  run+=,$1
elif [[ "$*" == *--record-digests* ]]; then
  run+=,soak
elif [[ "$*" == *"--tokens 5"* ]]; then
  tokens=5 run+=,setup
fi
echo "$run: $*${LP_LATE_COMPUTE+ LP_LATE_COMPUTE=$LP_LATE_COMPUTE}" >>"$here/log"

# A machine that is busy with something else half of the time.
tok_s=16.0
[[ -e $here/behaviour/noisy ]] && tok_s=$((8 + 9 * ($(wc -l <"$here/log") * 7 % 5)))

# Of another program than the engine, barrier 0 orders it against what is long over: its loss shows nowhere.
[[ $drop == 0 && $1 != perplexity && $1 != app ]] && how=right
[[ -n ${ZINC_BARRIER_TRACE-} ]] && cat >"$(dirname "$ZINC_BARRIER_TRACE")/1-0.jsonl" <<'JSON'
{"emissions_before": 0, "emissions": [{"kind": "prefix"}, {"kind": "raw"}, {"kind": "war"}, {"kind": "raw"}]}
JSON

# An in-order machine: a missing barrier shows only where the order was permuted.
digest=right
[[ $shuffle != off && ($policy == none || -n $drop) ]] && digest=wrong
# A driver of mesa-patches that runs grids late shows it without any shuffle; one value breaks results whatever is asked.
[[ ${LP_LATE_COMPUTE-0} != 0 && $policy == none ]] && digest=wrong
[[ ${LP_LATE_COMPUTE-} == 13 && $digest == right ]] && digest=other
perplexity=4.25
how=${how-}
if [[ -e $here/behaviour/$run ]]; then
  how=$(<"$here/behaviour/$run")
elif [[ -n $drop && -e $here/behaviour/drop ]]; then
  how=$(<"$here/behaviour/drop")
fi
# A driver with a mask: it needs bit 2 for its numbers and bit 0 to stay alive.
if [[ -n ${STAND_IN_MASK-} ]]; then
  ((STAND_IN_MASK & 1)) || how=segv
  ((STAND_IN_MASK & 4)) || how=${how:-wrong}
fi
# What is recorded lacks the barrier whatever the order is.
((validated)) && [[ $policy == none || -n $drop ]] && digest=wrong
[[ "$*" == *--record-digests* ]] && how=${how:-$( [[ -e $here/behaviour/soak ]] && cat "$here/behaviour/soak")}
case $how in
  exit) echo "error: the device was lost" >&2; exit 1 ;;
  segv) kill -SEGV $$ ;;
  hang) sleep 600 & sleep 600 ;;
  garbage) echo "Segmentation fault (just kidding)"; exit 0 ;;
  wrong) digest=wrong ;;
  # One run in five.
  rarely) (($(wc -l <"$here/log") % 5)) || digest=wrong ;;
  # Nothing can be written any more: the limit is on the size of files, as a full disk would be.
  full) ulimit -f 0; trap '' XFSZ; echo "more" >"$here/full" || { echo "error: no space left" >&2; exit 1; } ;;
  right) digest=right ;;
  nan) perplexity=null digest=nan ;;
  noise) digest=$RANDOM$RANDOM$$ ;;
  noreport) layer=0 ;;
  otherpolicy) policy=stock ;;
esac
[[ $digest == wrong ]] && perplexity=250.5

if ((layer)); then
  # Loading the model takes 50 barriers that every policy but none lets through.
  asked=$((100 * tokens + 50)) elided=0 added=0 mutated=0
  case $policy in
    every) added=$((50 * tokens)) ;;
    alias-only) elided=$((40 * tokens)) ;;
    none) elided=$asked ;;
  esac
  [[ $how == stock-stream ]] && elided=0
  [[ -n $drop && $how != nodrop ]] && mutated=$tokens elided=$((elided + tokens))
  emitted=$((asked + added - elided))
  [[ -z $drop ]] && drop=null
  counts="{\"submits\": $tokens, \"command_buffers\": $tokens, \"dispatches\": $((100 * tokens)), \"transfers\": 0,
    \"barriers_asked\": $asked,
    \"barriers_emitted\": $emitted, \"barriers_elided\": $elided, \"barriers_added\": $added,
    \"barriers_passed_through\": 0, \"barriers_mutated\": $mutated,
    \"hazards\": {\"raw\": 0, \"war\": 0, \"waw\": 0, \"prefix\": 0, \"flush\": 0}, \"unknown_operations\": 0}"
  cat >"$ZINC_BARRIER_REPORT" <<JSON
{"schema": 2, "layer_version": "0.1.0", "device": {"name": "$device", "driver": "llvmpipe", "driver_version": "1",
 "api_version": "1.3.0", "type": "cpu", "number": 0}, "policy": "$policy", "policy_is_correct": true,
 "shuffle": "$shuffle", "mutate": $drop, "out_of_bounds": "trust", "granule": 64,
 "written_at": "device-destruction", "totals": $counts, "recorded": $counts, "notes": []}
JSON
fi
answer=pass
[[ $digest == wrong ]] && answer=fail
if ((validated)) && [[ $digest == wrong ]]; then
  echo "Validation Error: [ SYNC-HAZARD-READ-AFTER-WRITE ] vkCmdDispatch" >&2
fi
case $1 in
  ops)
    passed=true
    [[ $answer == fail ]] && passed=false
    cat <<JSON
{"schema": 1, "command": "ops", "engine_version": "0.1.0", "device": {"index": 0, "name": "$device",
 "driver": "llvmpipe", "driver_version": "1", "api_version": "1.3.0", "kind": "cpu"}, "passed": 1, "total": 2,
 "controls_caught": 0, "controls": 0, "cases": [{"kernel": "norm", "shape": "n=7", "passed": $passed, "worst": 0.5,
 "detail": null}, {"kernel": "rope", "shape": "n=7", "passed": true, "worst": 0.5, "detail": null}]}
JSON
    [[ $answer == pass ]]
    exit
    ;;
  backend-ops)
    word=OK
    [[ $answer == fail ]] && word="NMSE = 0.5 > 0.1 FAIL"
    echo "  ADD(type=f32): $word"
    echo "  MUL(type=f32): OK"
    echo "  MUL(type=f16): not supported [Vulkan0]"
    [[ $answer == pass ]]
    exit
    ;;
  pictures)
    window=
    [[ "$*" == *--window* ]] && window=", \"window_digest\": \"$digest\""
    echo "{\"schema\": 1, \"scenes\": {\"cube\": {\"digest\": \"same\"${window:+, \"window_digest\": \"same\"}},
      \"mips\": {\"digest\": \"$digest\"$window}}}"
    exit 0
    ;;
esac
records=
[[ "$*" == *--record-digests* ]] && records="\"record_digests\": [\"first\", \"$digest\"],"
cat <<JSON
{"schema": 1, "command": "perplexity", "engine_version": "0.1.0", "device": {"index": 0, "name": "$device",
 "driver": "llvmpipe", "driver_version": "1", "api_version": "1.3.0", "kind": "cpu"}, "model": {"name": "m",
 "source": "embedded", "blake3": "00", "architecture": "llama", "parameters": 1, "bytes": 1}, "via": "decode",
 "ctx": 32, "tokens": 32, "scored": 16, "bytes": 16, "nll": 1.4469, "perplexity": {"value": $perplexity,
 "stderr": 0.2}, "per_byte": 4.25, "logits_digest": "$digest", $records "decode": {"tokens": $tokens, "seconds": 2.0,
 "tok_s": $tok_s, "dispatches_per_token": 100, "barriers_per_token": 100, "submits_per_token": 1,
 "cpu_us_per_token": 7.5, "gpu_us_per_token": null}}
JSON
