# Everything sets itself up: Python 3.11 or newer and make are all that must be there.
# CI runs `make test` and `make test-all`; `make demo` is the main job on real input.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
RUN := $(BIN)/python
SEEDS ?= 300
IMAGES ?= 20000
KILLS ?= 50
SECONDS ?= 120
CASES ?= 1000
MESSAGES ?= 100000
FLIGHTS ?= 0

# Where it is set, each of the hundreds of processes that tests start would compile all of onceq, which
# takes most of a second longer than to load it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check format test test-all demo sim crash bench bench-against bench-loss bench-depth bench-breadth bench-pauses bench-peers bench-tenants bench-tls calls kill consumer-kill hosts liar backup two-phase bench-two-phase bank networks spark-kill spark-land spark-tables spark-cluster bench-spark docs traces dist site pictures fuzz planted conformance clean

help:
	@echo "make test     finds bugs in minutes         make demo     the main job: FLIGHTS=n for less"
	@echo "make test-all the rest of the tests, which CI runs after make test"
	@echo "make check    style, types, import rules    make sim      simulated networks: SEEDS=n SEED=x"
	@echo "make crash    crash points: IMAGES=n        make kill     SIGKILL two daemons: KILLS=n"
	@echo "make bench    measure against the disk      make fuzz     more of tests/fuzz: TARGET=name"
	@echo "make docs     write the generated pages     make format   let ruff format everything"
	@echo "make site     documentation in build/site   make dist     packages, built and tried"
	@echo "make liar     daemons among lies: SECONDS=n make two-phase  with databases: CASES=n"
	@echo "make pictures draw those of the docs again  make clean    remove what all this made"
	@echo "make bank     an example under kills        make spark-kill   a Spark query: KILLS=n"
	@echo "make networks  an example: two networks, with Spark as the queue manager between them"
	@echo "make spark-land   onceq spark land: KILLS=n ARGS='--kind delta'"
	@echo "make spark-tables  the Java connectors of Delta and Iceberg with tables that were landed"
	@echo "make spark-cluster  executors that die      make bench-spark  source, sink, operators"
	@echo "make bench-against  this tree and another in turn: TREE=path"
	@echo "make bench-loss   a link that loses messages, beside a clean one"
	@echo "make bench-depth    rates, memory and the longest pump at 10^3 to 10^6 messages"
	@echo "make bench-pauses  how long the loop stands still: SECONDS=n MESSAGES=n"
	@echo "make bench-breadth  the same with 100 to 20,000 queues, 1 to 100 destinations of a send"
	@echo "make bench-tenants  one account beside two with very many queues and grants"
	@echo "make bench-tls    two managers with TLS between them and without, in turn"
	@echo "make bench-peers    beside PostgreSQL, Redis and others: ARGS=--quick"
	@echo "make conformance  the cases, with one thing turned that must not matter: TURN=public"
	@echo "make hosts    fork, signal, end programs at any line: SECONDS=n SEED=x"
	@echo "make planted  plant mistakes that must be found (ARGS='-k name')"
	@echo "make backup   back up under load, put back: MESSAGES=n"
	@echo "make traces   write the traces of the core in tests/traces again"
	@echo "ARGS='...'    more arguments for any of them"

$(BIN)/.ready: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "onceq needs Python 3.11 or newer, and none was found on the" \
	"PATH; install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) tools/setup_venv.py
	@touch $@

setup: $(BIN)/.ready

check: setup
	$(RUN) tools/check.py

format: setup
	$(RUN) tools/faces.py --write
	$(BIN)/ruff format src proof tests tools demo examples docs/conf.py
	$(BIN)/ruff check --fix src proof tests tools demo examples docs/conf.py

test: setup
	$(RUN) tools/test.py $(ARGS)

test-all: setup
	$(RUN) tools/test.py --tier rest $(ARGS)

demo: setup
	$(RUN) -m demo $(if $(filter-out 0,$(FLIGHTS)),--flights $(FLIGHTS)) $(ARGS)

sim: setup
	$(RUN) -m proof sim --seeds $(SEEDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

crash: setup
	$(RUN) -m proof crash --images $(IMAGES) $(ARGS)

conformance: setup
	$(RUN) -m proof conformance $(if $(TURN),--turn $(TURN)) $(ARGS)

planted: setup
	$(RUN) -m proof planted $(ARGS)

bench: setup
	$(RUN) -m proof bench $(ARGS)

bench-against: setup
	$(RUN) -m proof bench-against $(TREE) $(ARGS)

bench-loss: setup
	$(RUN) -m proof bench-loss $(ARGS)

bench-depth: setup
	$(RUN) -m proof bench-depth $(ARGS)

bench-pauses: SECONDS = 60
bench-pauses: MESSAGES = 1000000
bench-pauses: setup
	$(RUN) -m proof bench-pauses --seconds $(SECONDS) --messages $(MESSAGES) $(ARGS)

bench-breadth: setup
	$(RUN) -m proof bench-breadth $(ARGS)

bench-tenants: setup
	$(RUN) -m proof bench-tenants $(ARGS)

bench-tls: setup
	$(RUN) -m proof bench-tls $(ARGS)

bench-peers: setup
	$(RUN) -m proof bench-peers $(ARGS)

calls: setup
	$(RUN) -m proof calls $(ARGS)

kill: setup
	$(RUN) -m proof kill --kills $(KILLS) $(ARGS)

consumer-kill: setup
	$(RUN) -m proof consumer-kill --kills $(KILLS) $(ARGS)

hosts: setup
	$(RUN) -m proof hosts --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

backup: setup
	$(RUN) -m proof backup --messages $(MESSAGES) $(ARGS)

liar: setup
	$(RUN) -m proof liar --seconds $(SECONDS) $(ARGS)

spark-kill: setup
	$(RUN) -m proof spark-kill --kills $(KILLS) $(ARGS)

spark-land: setup
	$(RUN) -m proof spark-land --kills $(KILLS) $(ARGS)

spark-tables: setup
	$(RUN) -m proof spark-tables $(ARGS)

spark-cluster: setup
	$(RUN) -m pytest tests/spark/test_spark_cluster.py $(ARGS)

bench-spark: setup
	$(RUN) -m proof bench-spark $(ARGS)

fuzz: setup
	HYPOTHESIS_PROFILE=fuzz $(RUN) -m pytest tests/fuzz -q $(if $(TARGET),-k $(TARGET)) $(ARGS)

bench-two-phase: setup
	$(RUN) -m proof bench-two-phase $(ARGS)

bank: setup
	$(RUN) -m examples.bank $(ARGS)

networks: setup
	$(RUN) -m examples.networks

two-phase: setup
	$(RUN) -m proof two-phase --cases $(CASES) $(ARGS)

docs: setup
	$(RUN) tools/docs.py --write

traces: setup
	$(RUN) tools/traces.py --write $(ARGS)

dist: setup
	$(RUN) tools/dist.py $(ARGS)

site: setup
	$(RUN) tools/docs_site.py $(ARGS)

pictures: setup
	$(RUN) tools/pictures.py
	$(RUN) tools/console_pictures.py

clean:
	rm -rf .venv build dist .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-report
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
