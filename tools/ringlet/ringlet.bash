# bash completion of ringlet: commands, flags, and files where they stand.

_ringlet() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local use='--init --init-layout --by-name --skip-mismatch --data --part --images --audio --x --csv
             --header --no-header --separator --decimal --label --scale --offset
             --batch-size --threads --help'
  local -A flags=(
    [train]='--epochs --steps-per-epoch --batch-size --threads --seed
             --recompute --mixed-bfloat16 --no-shuffle --init --init-layout --by-name --skip-mismatch --save
             --no-save --log-steps --log-digests --log-examples --events --no-events
             --continue-with --shrink --sealed --insecure --status --watch
             --round-examples --round-minutes --replay --scan-seconds --help'
    [evaluate]="$use --labels --y --json --report"
    [predict]="$use --out --anomaly --score --threshold --threshold-quantile
               --threshold-data"
    [launch]='--workers --print --hosts --restart --max-restarts --healthy --backoff --grace --help'
    [keygen]='--out --help'
    [top]='--once --help'
    [relay]='--connections --help'
    [init]='--label --out --help'
    [doctor]='--batch-size --threads --recompute --mixed-bfloat16 --save --no-save --shrink --insecure --json --help'
    [plan]='--batch-size --threads --recompute --mixed-bfloat16 --limit --workers --link --latency --step-time --json --help'
    [verify]='--steps --expect --verbose --batch-size --threads --recompute --mixed-bfloat16
              --seed --no-shuffle --help'
    [audit]='--help'
    [summary]='--help'
    [inspect]='--json --verbose --help'
    [report]='--out --help'
    [diff]='--json --help'
    [export]='--format --out --all --softmax --name --with-preprocessing
              --anomaly --score --quantize --data --train --optimizer
              --learning-rate --batch --init --init-layout --by-name
              --skip-mismatch --help'
    [gather]='--out --state --examples --help'
  )
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "${!flags[*]} --help --version" -- "$word"))
    return
  fi
  case $previous in
    --part) COMPREPLY=($(compgen -W 'train validation' -- "$word")) ;;
    --init-layout) COMPREPLY=($(compgen -W 'keras torch' -- "$word")) ;;
    --score) COMPREPLY=($(compgen -W 'mse mae' -- "$word")) ;;
    --quantize) COMPREPLY=($(compgen -W 'int8' -- "$word")) ;;
    --format) COMPREPLY=($(compgen -W 'onnx c json npz safetensors' -- "$word")) ;;
    *)
      if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "${flags[${COMP_WORDS[1]}]}" -- "$word"))
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
      fi
      ;;
  esac
}
complete -o filenames -F _ringlet ringlet
