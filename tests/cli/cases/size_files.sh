# A preset is a file that ships: its name and the file say the same.
for model in GLM-5 GLM-5.2 DeepSeek-V3.2; do
    for hardware in B200 B300 H20-3e H200; do
        "$PAGELANE" size --model $model --hardware $hardware --kv-dtype fp8 |
            sed '1d;$d' >name
        "$PAGELANE" size --model "$DATA/models/$model.json" \
            --hardware "$DATA/hardware/$hardware.json" --kv-dtype fp8 |
            sed '1d;$d' >file
        cmp name file && grep 'device: tokens' file
    done
done
# A checkpoint's folder, a CPU, a page size that does not divide a chunk, a
# session that is as long as the model allows.
"$PAGELANE" size --model "$DATA/../examples/glm-tiny" --hardware Xeon-8480 \
    --gpus 2 --kv-dtype bf16 --weight-dtype bf16 --page-size 48 |
    tail -1 | sed "s|$DATA|DATA|"
