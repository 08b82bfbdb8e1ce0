# similarity: token orders, block self-similarity, sparsity and error.
load common

setup() {
    cd "$BATS_FILE_TMPDIR"
}

tiny() {
    sb similarity --backend cpu --workload mochi --seqlen 1k --heads 1 --threads 1 "$@"
}

@test "every order has a row, and a shuffle destroys what the grid has" {
    run --separate-stderr tiny --format json
    [ "$status" -eq 0 ]
    json '[r["order"] for r in data["rows"]] == ["row", "hilbert", "column", "time", "random"]'
    json 'all(0 <= r[k] <= 1 for r in data["rows"] for k in ("sim_q", "sim_k", "sim_q_paper", "sim_k_paper", "sparsity"))'
    json 'all(0 <= r["rel_l1"] < 1 for r in data["rows"])'
    json '(lambda by: all(by["hilbert"][k] > by["random"][k] for k in ("sim_q", "sim_k", "sim_q_paper", "sim_k_paper")))(
        {r["order"]: r for r in data["rows"]})'
}

@test "parameters reach the method" {
    run --separate-stderr tiny --order row --set tau=1 --set theta=-1 --format json
    [ "$status" -eq 0 ]
    json 'data["rows"][0]["sparsity"] == 0'
    run --separate-stderr tiny --order row --set tau=0.5 --set theta=-1 --format json
    json 'data["rows"][0]["sparsity"] > 0'
}

@test "results are stored as a document and drawn" {
    rm -rf s.db figures
    run --separate-stderr tiny --order row,random --set theta=0.2 --db s.db -o figures --format json
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ -s figures/index.html ]
    grep -q "sparge-f16 theta=0.2, grid .*, 1 heads, D .*, bf16, not causal, seed 1; run 1" figures/index.html
    grep -q "<h3>Run 1</h3>" figures/index.html # its command, though no measurement is of that run
    grep -q "similarity .*theta=0.2" figures/index.html
    [ -s figures/figures/similarity-mochi.gp ]
    python3 - s.db <<'P'
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT * FROM document").fetchall()
documents = [json.loads(cell) for row in rows for cell in row if isinstance(cell, str) and cell.startswith("{")]
assert len(documents) == 1, rows
document = documents[0]
assert document["workload"] == "mochi", document
assert [row["order"] for row in document["rows"]] == ["row", "random"], document
shared = {"method": "sparge-f16", "settings": "theta=0.2", "batch": 1, "heads_q": 1, "heads_kv": 1, "dtype": "bf16",
          "causal": "none", "seed": "1"}
assert {key: document[key] for key in shared} == shared, document
t, h, w = map(int, document["grid"].split("x"))
assert t * h * w + document["text_tokens"] == document["rows"][0]["tokens"], document
for key in ("sim_q", "sim_k", "sim_q_paper", "sim_k_paper", "sparsity", "rel_l1", "tokens"):
    assert all(isinstance(row[key], (int, float)) for row in document["rows"]), key
P
}

@test "documents of other settings are kept apart, and the page's path comes last" {
    rm -rf s.db figures
    run --separate-stderr tiny --order row --set theta=0.2,0.3 --db s.db -o figures/
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = figures/index.html ]
    [ -s figures/figures/similarity-mochi-sparge-f16-theta-0.2.gp ]
    [ -s figures/figures/similarity-mochi-sparge-f16-theta-0.3.gp ]
}

@test "methods without similarity leave it out" {
    run --separate-stderr tiny --order row --method window --format json
    [ "$status" -eq 0 ]
    json 'data["rows"][0]["sim_q"] is None and data["rows"][0]["sim_q_paper"] > 0'
}

@test "mistakes are told" {
    refused 2 "--order" similarity --workload mochi --order spiral
    refused 2 "random" similarity --workload random --order hilbert
    refused 2 "--error-rows 0" similarity --workload mochi --error-rows 0
    refused 2 "--error-rows 1,2: takes one number" similarity --workload mochi --error-rows 1,2
    refused 2 "backend gpu: unknown" similarity --workload mochi --seqlen 1k --backend gpu
}
