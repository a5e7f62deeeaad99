# One JSON object each, that says what the table says.
for view in requests nodes lanes; do
    "$PAGELANE" inspect "$DATA/small.h5" $view --json >$view.json
done
python3 - <<'END'
import json

requests = json.load(open("requests.json"))["requests"]
nodes = json.load(open("nodes.json"))["nodes"]
lanes = json.load(open("lanes.json"))
print(len(requests), "requests, the last", sorted(requests[-1].items()))
print(len(nodes), "nodes, the first", sorted(nodes[0].items()))
print(len(lanes["lanes"]), "lanes, the first", sorted(lanes["lanes"][0].items()))
last = lanes["samples"][-1]
print(len(lanes["samples"]), "samples, the last", sorted(last.items()))
for node in nodes:
    assert len(node["device_pages"]) in (0, node["n_pages"])
    assert len(node["host_pages"]) == len(node["page_owners"])
for lane in lanes["lanes"]:
    assert lane["least_free_pages"] <= lane["free_pages"] <= lane["pages"]
END
