#!/bin/bash
# A recipe in stages. Every stage reads what the one before wrote, so that any range can be run again:
#   run.sh --stage 2 --stop_stage 4
stage=-1
stop_stage=6
data_dir=/opt/ml/input/data/train
model_dir=/opt/ml/model
epochs=8
average_num=3

while [ $# -gt 0 ]; do
    case $1 in
    --stage | --stop_stage | --data_dir | --model_dir | --epochs | --average_num)
        [ $# -gt 1 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
        printf -v "${1#--}" '%s' "$2"
        shift 2
        ;;
    *)
        echo "run.sh: unknown option $1" >&2
        exit 2
        ;;
    esac
done

set -euo pipefail
cd "$(dirname "$0")"
export PYTHONPATH=../..${PYTHONPATH:+:$PYTHONPATH}
work=exp
mkdir -p $work "$model_dir"
within() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }

if within -1; then
    echo "stage -1: take the data"
    cat "$data_dir"/*.csv >$work/all.csv
    wc -l <$work/all.csv
fi
if within 0; then
    echo "stage 0: hold back every tenth image"
    awk -v out=$work '{ print > (out "/" (NR % 10 ? "train" : "dev") ".csv") }' $work/all.csv
fi
if within 1; then
    echo "stage 1: mean and deviation of all pixels"
    awk -F, '{ for (i = 2; i <= NF; i++) { n++; s += $i; q += $i * $i } }
        END { m = s / n; printf "%.6f %.6f\n", m, sqrt(q / n - m * m) }' $work/train.csv | tee $work/global_cmvn
fi
if within 2; then
    echo "stage 2: the classes"
    cut -d, -f1 $work/train.csv | sort -nu | tee $work/classes | paste -sd ' '
fi
if within 3; then
    echo "stage 3: list of the data"
    wc -l $work/train.csv $work/dev.csv | tee $work/data.list
fi
if within 4; then
    echo "stage 4: train $epochs epochs"
    python3 -m trainer.train --work $work --epochs "$epochs"
fi
if within 5; then
    echo "stage 5: average the best $average_num checkpoints"
    python3 -m trainer.average --work $work --num "$average_num"
fi
if within 6; then
    echo "stage 6: export"
    python3 -m trainer.export --work $work --output "$model_dir/final.zip" --output_quant "$model_dir/final_quant.zip"
fi
