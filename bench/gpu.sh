#!/bin/sh
# Check and measure the plans on the NVIDIA GPU of this machine: run by `make gpu`, or from
# the folder that `make gpu-kit` builds, which needs nothing on the machine but the driver.
# Results: results.json (a line for each run, as `onnxmem run --json` prints it, with its
# name), results.md, and the logs of the tests. PARTS chooses among: tests networks steps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here}
parts=${PARTS:-tests networks steps}
onnxmem=$here/onnxmem
[ -d "$here/nvrtc" ] && [ -z "${ONNXMEM_NVRTC:-}" ] && export ONNXMEM_CUDA_PATH="$here/nvrtc"
mkdir -p "$out/models"
: >"$out/results.json"
printf '| run | device | arena, B | fall-back nodes | replayed | same bits | step, ms |\n| --- | --- | ---: | ---: | ---: | --- | ---: |\n' >"$out/results.md"

# number FILE FIELD: the first number of that name in a JSON file.
number() { sed -n 's/.*"'"$2"'": *\([0-9.]*\).*/\1/p' "$1" | head -n 1; }

# dims NETWORK: the lengths to plan a network for.
dims() {
	case $1 in
	bert | xlmr) echo "--dim batch=${BATCH:-8} --dim sequence=128" ;;
	transformer) echo "--dim batch=${BATCH:-8} --dim source=64 --dim target=64" ;;
	*) echo "--dim batch=${BATCH:-8}" ;;
	esac
}

# measure NAME PLAN [FLAGS]: run a plan on the device, planned and apart.
measure() {
	name=$1 plan=$2
	shift 2
	if ! "$onnxmem" run "$plan" --device "${DEVICE:-cuda}" --steps 5 --check --json "$@" >"$out/run.json" 2>"$out/run.err"; then
		echo "$name: FAILED: $(tail -n 1 "$out/run.err")" | tee -a "$out/results.md"
		return
	fi
	bits=same
	grep -q '"identical": false' "$out/run.json" && bits=differ
	device=$(sed -n 's/.*"name": "\(.*GPU.*\|NVIDIA.*\)",*/\1/p' "$out/run.json" | head -n 1)
	{ printf '{"run": "%s", "result": ' "$name"; tr -d '\n' <"$out/run.json"; echo '}'; } >>"$out/results.json"
	echo "| $name | $device | $(number "$out/run.json" arena_bytes) | $(number "$out/run.json" fallback_nodes) | $(number "$out/run.json" replayed_steps) | $bits | $(number "$out/run.json" step) |" | tee -a "$out/results.md"
}

for part in $parts; do
	case $part in
	tests)
		for t in gpu vm; do
			(cd "$here/src/$t" && ONNXMEM_TEST_GPU=1 ./test -test.v -test.run 'Device|Reference|Group') >"$out/$t.log" 2>&1 && verdict=pass || verdict=FAIL
			echo "tests of $t: $verdict, $(grep -c -- '--- PASS' "$out/$t.log") passed, $(grep -c -- '--- FAIL' "$out/$t.log") failed" | tee -a "$out/results.md"
		done
		;;
	networks | steps)
		for n in ${NETWORKS:-$("$onnxmem" model --json | sed -n 's/.*"name": "\([a-z0-9_]*\)".*/\1/p' | sort -u)}; do
			model=$out/models/$n.onnx
			[ -f "$model" ] || "$onnxmem" model "$n" "$model" >/dev/null 2>&1 || continue
			if [ "$part" = networks ]; then
				"$onnxmem" optimize "$model" "$out/models/$n.plan.onnx" $(dims "$n") >/dev/null 2>&1 && measure "$n" "$out/models/$n.plan.onnx"
			else
				"$onnxmem" optimize --train "$model" "$out/models/$n.step.onnx" --optimizer adamw $(dims "$n") >/dev/null 2>&1 && measure "$n, AdamW step" "$out/models/$n.step.onnx"
			fi
		done
		;;
	esac
done
echo "results: $out/results.md, $out/results.json"
