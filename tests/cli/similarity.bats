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
    run --separate-stderr tiny --order row,random --db s.db -o figures --format json
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ -s figures/index.html ]
    grep -qi similarity figures/index.html
    python3 - s.db <<'P'
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT * FROM document").fetchall()
documents = [json.loads(cell) for row in rows for cell in row if isinstance(cell, str) and cell.startswith("{")]
assert len(documents) == 1, rows
document = documents[0]
assert document["workload"] == "mochi", document
assert [row["order"] for row in document["rows"]] == ["row", "random"], document
for key in ("sim_q", "sim_k", "sim_q_paper", "sim_k_paper", "sparsity", "rel_l1", "tokens"):
    assert all(isinstance(row[key], (int, float)) for row in document["rows"]), key
P
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
