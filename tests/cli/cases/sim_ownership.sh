# By all rules; a rule that simulations alone know is refused elsewhere.
trace="--trace $DATA/mooncake_conversation_slice.jsonl"
for rule in replicated zigzag round-robin interleave:3 layer; do
    # shellcheck disable=SC2086
    "$PAGELANE" sim $trace --limit 60 --cp 4 --decode-ranks 1 --model GLM-5.2 \
        --hardware H200 --kv-dtype fp8 --ep 8 --device-pages 1500 \
        --host-pages 2000 --ownership $rule --snapshot $rule.h5 \
        --log-level warn >out || exit
    grep -E ', '$rule'$|^(materialize|device to host|backed up) ' out
    "$PAGELANE" check $rule.h5 | tail -1
done
"$PAGELANE" inspect layer.h5 nodes --json | head -c 40
echo
# shellcheck disable=SC2086
"$PAGELANE" sim $trace --limit 9 --ownership layer --log-level warn >/dev/null
# shellcheck disable=SC2086
"$PAGELANE" run $trace --ranks 2 --comm local --ownership layer
echo "exit status $?"
# shellcheck disable=SC2086
"$PAGELANE" run $trace --executor cost --ownership layer
echo "exit status $?"
"$PAGELANE" bench prefill --model "$DATA/../examples/glm-tiny" \
    --ownership layer
echo "exit status $?"
# shellcheck disable=SC2086
"$PAGELANE" sim $trace --ownership layers
