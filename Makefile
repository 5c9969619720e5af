# SPDX-License-Identifier: Apache-2.0
#
# Everything can be built from Go modules. The build needs only Go, make, gcc (for the race detector) and git.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := bin
GOFILES = $(shell git ls-files --cached --others --exclude-standard -- '*.go')
# The version that a program reports (package version). A build without VERSION is never a release.
COMMIT = $(shell git rev-parse HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),-dirty)
BUILD = $(VERSION)$(if $(filter file,$(origin VERSION)),-dev)
STAMP = -X github.com/capportal/cluster-api-provider-portal/version.version=$(BUILD) \
	-X github.com/capportal/cluster-api-provider-portal/version.commit=$(COMMIT)
# One set of flags for all builds and tests, so that each dependency is compiled once (test/arrow compares the versions). Objects contain no
# paths, so that Go's build cache serves every clone. STAMP has the revision from git, whether Go finds a repository or not. The tag is that
# of the released core manager.
TAG := fieldsv1string
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false -tags=$(TAG)
TOOLS_MODULE := hack/tools/go.mod hack/tools/go.sum hack/build.sh
RELEASE_MODULE := hack/release/go.mod hack/release/go.sum hack/build.sh
LINT_MODULE := hack/lint/go.mod hack/lint/go.sum hack/build.sh
LICENSES_MODULE := hack/licenses/go.mod hack/licenses/go.sum hack/build.sh
MONITORING_MODULE := hack/monitoring/go.mod hack/monitoring/go.sum hack/build.sh
KUBE_MODULE := hack/kube/go.mod hack/kube/go.sum hack/build.sh
OPERATOR_MODULE := hack/operator/go.mod hack/operator/go.sum hack/build.sh
FLUX_MODULE := hack/flux/go.mod hack/flux/go.sum hack/build.sh

CONTROLLER_GEN := $(BIN)/controller-gen
KUSTOMIZE := $(BIN)/kustomize
CRD_REF_DOCS := $(BIN)/crd-ref-docs
CYCLONEDX := $(BIN)/cyclonedx-gomod
KUBE_SCORE := $(BIN)/kube-score
ACTIONLINT := $(BIN)/actionlint
GOVULNCHECK := $(BIN)/govulncheck
GOTESTSUM := $(BIN)/gotestsum
GO_LICENSES := $(BIN)/go-licenses
GOLANGCI_LINT := $(BIN)/golangci-lint
KUBE_STATE_METRICS := $(BIN)/kube-state-metrics
CAPI_OPERATOR := $(BIN)/capi-operator
KUSTOMIZE_CONTROLLER := $(BIN)/kustomize-controller
MODULES = $(shell git ls-files --cached --others --exclude-standard -- 'go.mod' '*/go.mod')
# The folder for generated files. verify sets it to a scratch directory and compares.
OUT := .

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## |^##@ ' '/^##@ / {printf "\n%s\n", $$2} /^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Build

.PHONY: build
build: ## Build the manager and the commands into bin/
	@mkdir -p $(BIN)
	@echo "the manager and the commands into bin/"
	@hack/progress.sh go build -ldflags '$(STAMP)' -v -o $(BIN)/manager .
	@hack/progress.sh go build -ldflags '$(STAMP)' -v -o $(BIN)/ ./cmd/...

# The script reads PREBUILT and PREBUILT_FLAGS from the environment (hack/prebuilt/doc.go).
.PHONY: kube
kube: $(BIN)/.kube ## Fetch Kubernetes' servers, Cluster API's core manager and clusterctl, or compile them (once; PREBUILT=0 only compiles)

$(BIN)/.kube: $(KUBE_MODULE) hack/kube/build.sh cloud/emulator/workload/versions.txt
	@hack/kube/build.sh
	@touch $@

.PHONY: tools
tools: $(CONTROLLER_GEN) $(KUSTOMIZE) $(CRD_REF_DOCS) ## Build the code generators into bin/

$(CONTROLLER_GEN): $(TOOLS_MODULE)
	@hack/build.sh controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen tools

$(KUSTOMIZE): $(KUBE_MODULE)
	@hack/build.sh kustomize sigs.k8s.io/kustomize/kustomize/v5 kube

$(CRD_REF_DOCS): $(RELEASE_MODULE)
	@hack/build.sh crd-ref-docs github.com/elastic/crd-ref-docs release

$(CYCLONEDX): $(RELEASE_MODULE)
	@hack/build.sh cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod release

$(KUBE_SCORE): $(LINT_MODULE)
	@hack/build.sh kube-score github.com/zegl/kube-score/cmd/kube-score lint

$(ACTIONLINT): $(LINT_MODULE)
	@hack/build.sh actionlint github.com/rhysd/actionlint/cmd/actionlint lint

$(GOVULNCHECK): $(LINT_MODULE)
	@hack/build.sh govulncheck golang.org/x/vuln/cmd/govulncheck lint

$(GOTESTSUM): $(LINT_MODULE)
	@hack/build.sh gotestsum gotest.tools/gotestsum lint

$(GO_LICENSES): $(LICENSES_MODULE)
	@hack/build.sh go-licenses github.com/google/go-licenses licenses

$(GOLANGCI_LINT): $(TOOLS_MODULE)
	@hack/build.sh golangci-lint sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter tools

$(KUBE_STATE_METRICS): $(MONITORING_MODULE)
	@hack/build.sh kube-state-metrics k8s.io/kube-state-metrics/v2 monitoring

$(CAPI_OPERATOR): $(OPERATOR_MODULE)
	@hack/build.sh capi-operator sigs.k8s.io/cluster-api-operator/cmd operator

# Its module for server-side apply does not compile with TAG.
$(KUSTOMIZE_CONTROLLER): $(FLUX_MODULE)
	@GOFLAGS="$(filter-out -tags=%,$(GOFLAGS))" hack/build.sh kustomize-controller github.com/fluxcd/kustomize-controller flux

##@ Release

# The version to release, and its image with the registry's name, which clusterctl needs. The default cannot be pulled from any registry, so
# build and load it, or set another.
VERSION := $(shell sed -n 's/.*"nextVersion": "\(.*\)".*/\1/p' clusterctl-settings.json)
IMG = registry.example/capportal/cluster-api-provider-portal:$(VERSION)
# The folder of the release. clusterctl requires the file names.
RELEASE := out

.PHONY: release-manifests
release-manifests: known-version $(KUSTOMIZE) ## Write what clusterctl installs and renders into out/ (VERSION, IMG)
	@mkdir -p $(RELEASE)
	@rm -f $(RELEASE)/*.yaml $(RELEASE)/dashboard-*.json
	$(KUSTOMIZE) build config/default | sed 's|image: controller:latest$$|image: $(IMG)|' >$(RELEASE)/infrastructure-components.yaml
	cp metadata.yaml $(wildcard templates/cluster-template*.yaml templates/clusterclass-*.yaml) $(RELEASE)/
	for dashboard in config/metrics/dashboards/*.json; do cp $$dashboard $(RELEASE)/dashboard-$${dashboard##*/}; done
	for file in config role; do cp config/metrics/kube-state-metrics/$$file.yaml $(RELEASE)/kube-state-metrics-$$file.yaml; done
	cp config/metrics/rules/rules.yaml $(RELEASE)/prometheus-rules.yaml
	sed 's/^./  &/' config/metrics/rules/rules.yaml | cat config/metrics/rules/prometheusrule.yaml - >$(RELEASE)/prometheusrule.yaml

# Programs for users' own machines are released for these platforms, and the image for those of PLATFORMS.
PROGRAM_PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The order matters: the checksums are those of all files.
.PHONY: release
release: known-version ## Write all files of a release into out/: make release VERSION=v0.1.0 (IMG, PLATFORMS)
	@[ "$(origin VERSION)" != file ] || { echo "make release needs the version to release, such as VERSION=$(VERSION)" >&2; exit 1; }
	@$(MAKE) --no-print-directory -s release-manifests image-archives programs sbom \
		$(if $(filter file,$(origin PLATFORMS)),PLATFORMS=linux/amd64$(comma)linux/arm64)
	tar -czf $(RELEASE)/licenses.tar.gz --sort=name --mtime=@0 --owner=0 --group=0 -C $(BIN)/image licenses
	hack/notes.sh $(VERSION) >$(RELEASE)/notes.md
	cd $(RELEASE) && rm -f SHA256SUMS && sha256sum * >.sums && mv .sums SHA256SUMS

.PHONY: bundle
bundle: known-version kube licenses ## Write the sandbox for this platform into out/, to unpack and run without Go
	@hack/bundle.sh $(RELEASE)/portal-sandbox-$(shell go env GOOS)-$(shell go env GOARCH).tar.gz '$(STAMP)'

.PHONY: programs
programs: ## Build portalctl, portal-emulator and portal-conformance for several platforms into out/ (PROGRAM_PLATFORMS)
	@mkdir -p $(RELEASE)
	@for platform in $(PROGRAM_PLATFORMS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		for program in portalctl portal-emulator portal-conformance; do \
			file=$(RELEASE)/$$program-$${platform/\//-}; \
			go build -ldflags '-s -w $(STAMP)' -o $$file ./cmd/$$program || exit 1; \
			echo "$$file"; \
		done; \
	done

# clusterctl refuses a release whose minor version metadata.yaml does not know.
.PHONY: known-version
known-version:
	@[[ "$(VERSION)" =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$$ ]] || { \
		echo "VERSION=$(VERSION) is not a version: it must look like v1.2.3 or v1.2.3-rc.1" >&2; exit 1; }; \
	grep -A1 "major: $${BASH_REMATCH[1]}$$" metadata.yaml | grep -q "minor: $${BASH_REMATCH[2]}$$" || { \
		echo "metadata.yaml has no release series for VERSION=$(VERSION), so clusterctl would refuse the release." \
			"Add major $${BASH_REMATCH[1]}, minor $${BASH_REMATCH[2]} and its contract to metadata.yaml." >&2; exit 1; }

# The platforms of the image, such as "linux/amd64,linux/arm64", and its base: nothing, or a static base image.
PLATFORMS = linux/$(shell go env GOARCH)
BASE := scratch
comma := ,
architectures = $(patsubst linux/%,%,$(subst $(comma), ,$(PLATFORMS)))
binaries = $(architectures:%=$(BIN)/image/manager-linux-%)
# The name of the image for $$arch: IMG itself, unless there are several platforms.
image_name = $(IMG)$(if $(word 2,$(architectures)),-$$arch)

.PHONY: image
image: docker licenses $(binaries) ## Build the manager's image (IMG, PLATFORMS, BASE)
	@# Docker's old builder, without buildx, takes every layer of an empty image for one of its own platform. With
	@# buildx, attestations would turn every image into a list, and docker manifest cannot nest lists.
	@for arch in $(architectures); do \
		docker buildx version >/dev/null 2>&1 || [ $$arch = "$$(docker version --format '{{.Server.Arch}}')" ] || { \
			echo "make image needs docker buildx for linux/$$arch" >&2; exit 1; }; \
		BUILDX_NO_DEFAULT_ATTESTATIONS=1 docker build --platform linux/$$arch --build-arg TARGETARCH=$$arch \
			--build-arg BASE=$(BASE) --build-arg VERSION=$(BUILD) --build-arg REVISION=$(COMMIT) --tag $(image_name) . || exit 1; \
		echo "$(image_name)"; \
	done

IMAGE_ARCHIVE := $(BIN)/image-archive
$(IMAGE_ARCHIVE): $(RELEASE_MODULE) hack/release/image/main.go
	@hack/build.sh image-archive ./image release

.PHONY: image-archives
image-archives: $(IMAGE_ARCHIVE) licenses $(binaries) ## Write the manager's images into out/ without docker, for docker load (IMG, PLATFORMS)
	@mkdir -p $(RELEASE)
	@for arch in $(architectures); do \
		file=$(RELEASE)/manager-image-linux-$$arch.tar; \
		$(IMAGE_ARCHIVE) -name $(IMG) -arch $$arch -version $(BUILD) -revision $(COMMIT) -output $$file \
			$(BIN)/image/manager-linux-$$arch $(LICENSES) || exit 1; \
		echo "$$file"; \
	done

.PHONY: image-push
image-push: image ## Build the image and push it; images for several platforms become one name
	@for arch in $(architectures); do docker push $(image_name) || exit 1; done
	@[ -z "$(word 2,$(architectures))" ] || { \
		docker manifest create --amend $(IMG) $$(for arch in $(architectures); do echo $(image_name); done); \
		docker manifest push --purge $(IMG); \
	}

.PHONY: docker
docker:
	@docker version >/dev/null 2>&1 || { echo "make image needs docker, and no docker daemon answers ('docker version' says why)" >&2; exit 1; }

# Go decides what is up to date.
.PHONY: $(binaries)
$(binaries): $(BIN)/image/manager-linux-%:
	GOOS=linux GOARCH=$* go build -ldflags '-s -w $(STAMP)' -o $@ .

# The licence texts of all modules that are linked into the manager, and Go's own. go-licenses fails if a module has no licence, or one that
# forbids its use. It takes a minute, so it runs only if the packages changed.
LICENSES := $(BIN)/image/licenses
.PHONY: licenses
licenses: $(GO_LICENSES) ## Collect the licence texts of what is linked into the manager, in bin/image/licenses
	@export GOOS=linux GOARCH=amd64 GOROOT=$$(go env GOROOT); \
	packages=$$(go version; go list -deps -f '{{with .Module}}{{$$.ImportPath}} {{.Version}}{{end}}' .); \
	[ "$$packages" = "$$(cat $(LICENSES).of 2>/dev/null)" ] && [ -d $(LICENSES) ] && exit; \
	rm -rf $(LICENSES) $(LICENSES).of; mkdir -p $(LICENSES); \
	$(GO_LICENSES) save . --force --save_path $(LICENSES) --ignore "$$(go list -m)" 2>$(LICENSES).log || { cat $(LICENSES).log >&2; exit 1; }; \
	mkdir $(LICENSES)/go; cp "$$GOROOT/LICENSE" "$$GOROOT/PATENTS" $(LICENSES)/go/; cp LICENSE $(LICENSES)/; \
	echo "$$packages" >$(LICENSES).of

.PHONY: sbom
sbom: $(CYCLONEDX) $(binaries) ## Write what the image is made of into out/, as CycloneDX (PLATFORMS)
	@mkdir -p $(RELEASE)
	@for binary in $(binaries); do \
		$(CYCLONEDX) bin -json -std -noserial -notimestamp -version $(VERSION) \
			-output $(RELEASE)/$${binary##*/}.cdx.json $$binary; \
		echo "$(RELEASE)/$${binary##*/}.cdx.json"; \
	done

.PHONY: conformance
conformance: ## Build only bin/portal-conformance, which checks a portal (docs/development/conformance.md)
	go build -ldflags '$(STAMP)' -o $(BIN)/ ./cmd/portal-conformance

.PHONY: released-fields
released-fields: ## Store the fields of the CRDs as those of the last release (docs/development/releasing.md)
	go test ./api/v1beta1 -run TestReleasedFields -count 1 -update

##@ Develop

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Regenerate the deepcopy functions
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/... output:object:dir=$(OUT)/api/v1beta1

REFERENCE := hack/release/reference

.PHONY: manifests
manifests: $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Regenerate the CRDs, the RBAC role and the reference of the types
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=$(OUT)/config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=manager-role paths=./controllers/... output:rbac:dir=$(OUT)/config/rbac
	@mkdir -p $(OUT)/docs
	$(CRD_REF_DOCS) --source-path api --config $(REFERENCE)/config.yaml --templates-dir $(REFERENCE) --renderer markdown \
		--output-path $(OUT)/docs/reference.md --log-level ERROR

.PHONY: modules
modules: ## Run go mod tidy in the folder of each go.mod
	@for file in $(MODULES); do (cd $$(dirname $$file) && go mod tidy) || exit 1; done

.PHONY: verify
verify: verify-modules verify-generated verify-format verify-lint verify-manifests verify-workflows ## Fail if generated files are stale, or vet or a linter complains

.PHONY: verify-modules
verify-modules:
	@for file in $(MODULES); do (cd $$(dirname $$file) && go mod tidy -diff) || { echo "$$file is not tidy: run 'make modules'" >&2; exit 1; }; done

# The names of these targets in other providers.
.PHONY: lint docker-build generate-manifests
lint: verify-lint
docker-build: image
generate-manifests: manifests

.PHONY: verify-generated
verify-generated: $(CONTROLLER_GEN)
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(MAKE) --no-print-directory -s generate manifests OUT="$$fresh"; \
	stale=; while read -r file; do \
		diff -u --label "$$file (committed)" --label "$$file (regenerated)" "$$file" "$$fresh/$$file" || stale=1; \
	done < <(cd "$$fresh" && find * -type f); \
	while read -r file; do \
		[ -e "$$fresh/$$file" ] || { echo "$$file: nothing generates it any more"; stale=1; }; \
	done < <(ls config/crd/bases/*.yaml api/v1beta1/zz_generated.*.go config/rbac/role.yaml 2>/dev/null); \
	[ -z "$$stale" ] || { echo "generated files are stale: run 'make generate manifests' and commit the result"; exit 1; }

.PHONY: verify-format
verify-format:
	@unformatted=$$(gofmt -l $(GOFILES)); \
	[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go vet -tags e2e,$(TAG) ./...

.PHONY: verify-lint
verify-lint: $(GOLANGCI_LINT)
	$(GOLANGCI_LINT) run

# There is no CPU limit, because throttling would delay storing the portal's answers.
SCORED := --ignore-container-cpu-limit --enable-optional-test=container-seccomp-profile,container-ports-check

.PHONY: verify-manifests
verify-manifests: $(KUBE_SCORE) $(KUSTOMIZE)
	@release=$$(mktemp -d); trap 'rm -rf "$$release"' EXIT; \
	$(MAKE) --no-print-directory -s release-manifests RELEASE="$$release"; \
	exceptions=$$(sed -n 's/^\([a-z-]*\): .*/--ignore-test=\1/p' hack/lint/exceptions.txt); \
	$(KUBE_SCORE) score --kubernetes-version v1.36 --exit-one-on-warning --output-format ci $(SCORED) $$exceptions \
		"$$release/infrastructure-components.yaml" >"$$release/findings" || { grep '^\[\(CRITICAL\|WARNING\)' "$$release/findings"; exit 1; }

# shellcheck and pyflakes are not Go modules, and shell scripts in workflows are short, so neither is used even if installed.
.PHONY: verify-workflows
verify-workflows: $(ACTIONLINT)
	$(ACTIONLINT) -shellcheck= -pyflakes=

# The database is on the network. Without it govulncheck, and so this target, fails. So this target is not part of verify.
.PHONY: vulnerabilities
vulnerabilities: $(GOVULNCHECK) ## Fail if the programs reach code with a known vulnerability, or the database cannot be read
	@$(GOVULNCHECK) . ./cmd/... || { code=$$?; \
		[ $$code = 3 ] && echo "Vulnerable code is reachable: raise the modules above, or the toolchain line of go.mod." >&2 || \
			echo "The check did not run, so nothing is known of vulnerabilities." >&2; \
		exit $$code; }

##@ Run

# Random histories for package claims against a model of core and the portal. make test always runs the same 10,000.
HISTORIES := 'TestRandomHistories|TestNothingIsAskedWithoutAChangeOfReplicas'
CHECKS := 10000
# Flags of go test must come after the package. Before it they would end rapid's flags.
# The histories keep little on the heap. With Go's default, collecting garbage would take half of their CPU time.
ON_MODEL := GOGC=400 go test ./controllers/portalcontrolplane/workers/claims -run $(HISTORIES) -rapid.checks=$(CHECKS)
# Packages with tests. Those in test/ run first, because the stories take longest and mostly wait. make test-e2e runs the packages that need
# containers.
TESTED = $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v /test/e2e | sort -r)
# The suites that make test leaves out, the longest ones first. Each checks one promise of the documentation, and CI runs them after make test.
SUITES := ownership|stories|gitops|attacks|rights|release|contract
# The suites that only make nightly runs (CONTRIBUTING.md says which changes need them earlier).
NIGHTLY := autoscaler|capibehavior|hostile|secrets
GOTEST := go test
# Suites start API servers, so memory limits the number of packages that run at a time (-p) on any number of cores.
ON_SERVERS = KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(BIN)} $(GOTEST) -timeout 60m -skip $(HISTORIES)
# Packages whose tests start servers and are no suites: make test-suites runs them, too.
SERVERS := . ./cloud/emulator/workload

# Lives in virtual time with the real core (test/world, a module of its own). go vet would check a thousand dependencies there. How many lives
# are drawn, from the seed FIRST on: make test always draws the same ones, and CI 32 more (test-lives).
LIVES := 8
FIRST := 1
WORLD := go -C test/world test . -vet=off -count 1 -timeout 3h

# Packages whose tests start no API server and need nothing from bin/.
CHECKED = $$(awk '!/\/test\/|\/emulator\/workload$$|\/hack\/fleet$$/ || /\/test\/(arrow|docs|gitops\/health|sandbox\/demo)$$/' <<<"$(TESTED)")

.PHONY: check
check: ## Build, vet and run the unit tests, without API servers (a minute; before each commit)
	go build ./...
	go vet ./...
	PORTAL_TEST_WITHOUT_KUBE=1 go test $(CHECKED)

.PHONY: test
test: kube build ## Run the packages' tests, lives in virtual time, and three stories on real servers (6 to 15 minutes; before a pull request)
	@echo "10,000 random histories on a model (controllers/portalcontrolplane/workers/claims), lives with the real core (test/world), and beside them everything else"
	@set -m; $(ON_MODEL) -rapid.seed=1 & model=$$!; $(WORLD) -lives $(LIVES) & world=$$!; set +m; \
	trap 'kill -- -$$model -$$world 2>/dev/null || true' EXIT; \
	$(ON_SERVERS) -short -p 2 ./test/stories $$(grep -vE '/test/($(SUITES)|$(NIGHTLY))$$|/emulator/workload$$|provider-portal$$' <<<"$(TESTED)"); wait $$model; wait $$world
	@echo 'make test left out suites on real servers: make test-suites runs them, and make nightly $(words $(subst |, ,$(NIGHTLY))) more'

# In the folder test/.
in_test = $(addprefix ./test/,$(subst |, ,$(1)))

.PHONY: test-suites
test-suites: kube build $(GOTESTSUM) ## Run the suites on real servers that make test leaves out
	@$(ON_SERVERS) -p 2 $(call in_test,$(SUITES)) $(SERVERS)
test-suites: GOTEST := $(GOTESTSUM) --format pkgname --format-icons text --

.PHONY: test-lives
test-lives: ## Live the drawn lives of CI that make test leaves out
	$(WORLD) -run TestLives -lives 32 -seed 9

.PHONY: test-all
test-all: test test-lives test-suites test-race ## Run all tests that need no containers, as CI does

# The packages whose code runs in several goroutines. RACED=all: all tests that need no server.
RACED := ./cloud ./cloud/emulator ./cloud/emulator/page ./cloud/ratelimit ./controllers/shared/fair ./controllers/shared/outcome ./controllers/portalcontrolplane/access/workload ./internal/kubeserver

# The race detector makes Go compile every dependency once more, so it is not part of make test.
.PHONY: test-race
test-race: ## Run unit tests with the race detector: those of concurrent packages, or RACED=all
	CGO_ENABLED=1 PORTAL_TEST_WITHOUT_KUBE=1 go test -race -skip $(HISTORIES) $(if $(filter all,$(RACED)),$(CHECKED),$(RACED))

# Tests that call suite.Nightly.
.PHONY: test-nightly
test-nightly: kube build ## Run the suites and tests that only make nightly runs
	PORTAL_TEST_NIGHTLY=1 $(ON_SERVERS) -count 1 -v -p 1 $(call in_test,$(filter-out autoscaler,$(subst |, ,$(NIGHTLY)))) \
		$$(grep -rl --include='*_test.go' 'suite\.Nightly(' test | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	$(WORLD) -run TestModelOfCore -histories 20

.PHONY: test-slow
test-slow: ## Run .ci/run with 65 % of the CPUs, as on a busy machine (needs root)
	hack/slow.sh 65 bash .ci/run

.PHONY: test-docs
test-docs: ## Run the tests that read pages (seconds; all that CI runs if only pages changed)
	go test ./test/docs ./test/gitops/health ./cmd/portalctl
	go test ./test/sandbox -run TestTroubleshooting
	go test ./test/release -run TestFlavorsPage

.PHONY: lives
lives: ## Live drawn lives with the real core at random portals, in virtual time: make lives LIVES=1000 [FIRST=41]
	$(WORLD) -run TestLives -lives $(LIVES) -seed $(FIRST)

.PHONY: exhaustive
exhaustive: ## Interrupt the provider at each write of a small life, and show it each change late or not at all (test/world; an hour on 2 cores)
	$(WORLD) -run AtEvery -every 1

.PHONY: bench-fleet-virtual
bench-fleet-virtual: N ?= 1000
bench-fleet-virtual: ## Measure N clusters on one account in virtual time against the account's limit (N=1000)
	go test ./internal/fleet -run TestMeasure -v -clusters $(N) | grep -v '^=== RUN'

.PHONY: bench-fleet
bench-fleet: N ?= 300
bench-fleet: kube build ## Measure N clusters on one account in real time: make bench-fleet N=25 [FLAGS='-idle 2m'] (docs/fleet.md)
	go run ./hack/fleet -n $(N) $(FLAGS)

# Additional flags of go test, such as -run.
E2E_FLAGS :=

.PHONY: test-e2e
test-e2e: image kube build release-manifests ## Run the specs on a kind management cluster (test/e2e/doc.go; needs docker)
	go test -tags e2e,$(TAG) ./test/e2e -v -count 1 -timeout 60m $(E2E_FLAGS)

# The mutants to try, or all, and the floors whose tests run (hack/mutants/doc.go). The floors contract and witness need make kube.
MUTANTS :=
FLOORS := unit,client

.PHONY: mutants
mutants: ## Break each promise once, and check that its tests notice: make mutants [MUTANTS='name name'] [FLOORS=contract,witness]
	@KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(BIN)} go run ./hack/mutants -floors $(FLOORS) $(MUTANTS)

# The duration of each fuzz target.
FUZZTIME := 5s

.PHONY: fuzz
fuzz: ## Fuzz what the portal and tenants write: make fuzz FUZZTIME=5m
	@for package in ./cloud ./cloud/ratelimit ./controllers/portalcontrolplane/access/kubeconfig; do \
		for target in $$(go test $$package -list '^Fuzz' | grep '^Fuzz'); do \
			echo "$$target for $(FUZZTIME)"; \
			go test $$package -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

# How long to run (1h30m, 90s), and the first seed.
FOR := 10m
SEED := $(shell date +%s)

.PHONY: soak
soak: ## Live drawn lives, and beside them histories on a model, for as long as you say: make soak FOR=30m [SEED=1]
	@set -m; $(WORLD) -run TestLives -for $(FOR) -seed $(SEED) -timeout 0 & lives=$$!; set +m; trap 'kill -- -$$lives 2>/dev/null || true' EXIT; \
	for ((seed = $(SEED); ; seed++)); do \
		kill -0 $$lives 2>/dev/null || break; \
		$(ON_MODEL) -rapid.seed=$$seed; \
	done; wait $$lives

.PHONY: sandbox
sandbox: kube build ## Start everything on this machine and keep it up until Ctrl-C (FLAGS: see bin/portal-sandbox -h)
	@exec $(BIN)/portal-sandbox $(FLAGS)

.PHONY: demo
demo: ## Drive a cluster through its life in the sandbox (make demo FLAGS='--seed 7')
	@MAKE="$(MAKE)" hack/demo.sh $(FLAGS)

# The release before this one: a tag, or a commit until there is a tag.
PREVIOUS := d6247b9
PREVIOUS_DIR := $(BIN)/previous

# The sandbox's parts of the previous release: its manifests and its manager. All other binaries are today's.
.PHONY: previous
previous: kube
	@git cat-file -e '$(PREVIOUS)^{commit}' || { echo "make previous needs the history of the repository: git fetch --unshallow --tags" >&2; exit 1; }
	@rm -rf $(PREVIOUS_DIR); mkdir -p $(PREVIOUS_DIR)
	@git archive $(PREVIOUS) | tar -x -C $(PREVIOUS_DIR)
	@mkdir -p $(PREVIOUS_DIR)/bin
	@echo "the manager of $(PREVIOUS) into $(PREVIOUS_DIR)/bin/"
	@cd $(PREVIOUS_DIR) && ../../hack/progress.sh go build -v -o bin/manager-built .
	@for binary in $$(ls $(BIN)); do \
		case $$binary in previous|manager|image|portal*) ;; *) ln -sfn ../../$$binary $(PREVIOUS_DIR)/bin/$$binary ;; esac; \
	done

.PHONY: test-upgrade
test-upgrade: previous build ## Replace the previous release while clusters are in every phase (test/upgrade)
	go test ./test/upgrade -count 1 -timeout 30m -v $(UPGRADE_FLAGS)

.PHONY: test-operator
test-operator: previous build $(CAPI_OPERATOR) ## Install and upgrade the provider by the Cluster API Operator (test/operator)
	$(ON_SERVERS) ./test/operator -count 1 -v

.PHONY: test-flux
test-flux: previous build $(KUSTOMIZE_CONTROLLER) ## Install and upgrade the provider by Flux (test/flux)
	$(ON_SERVERS) ./test/flux -count 1 -v

.PHONY: test-browser
test-browser: kube build ## Test the page in a browser (test/browser; needs chromium)
	go -C test/browser test -count 1 -timeout 20m -v ./... $(BROWSER_FLAGS)

# The specs to run, as a regular expression over their texts, the number of parallel specs, and additional flags of Ginkgo.
UPSTREAM := .
UPSTREAM_PROCS := 4
UPSTREAM_FLAGS :=
# An existing management cluster. Without one the target starts a sandbox.
KUBECONFIG_UPSTREAM :=
UPSTREAM_DIR := $(CURDIR)/$(BIN)/upstream

# Ginkgo does not forward signals to the processes of its specs, so the recipe sends them to all of them, and waits.
.PHONY: test-upstream
test-upstream: kube build ## Run Cluster API's own specs (docs/development/upstream.md): make test-upstream [UPSTREAM='drain|quick'] [KUBECONFIG_UPSTREAM=file]
	@[ -z "$(KUBECONFIG_UPSTREAM)" ] || [ -f "$(KUBECONFIG_UPSTREAM)" ] || { echo "KUBECONFIG_UPSTREAM=$(KUBECONFIG_UPSTREAM) does not exist" >&2; exit 1; }
	@[ -x $(BIN)/cluster-autoscaler ] || [ -n "$${CLUSTER_AUTOSCALER:-}" ] || echo "no bin/cluster-autoscaler: its spec is skipped (docs/development/testing.md says how to get it)" >&2
	@$(MAKE) --no-print-directory -s release-manifests RELEASE=$(UPSTREAM_DIR)/release VERSION=v0.1.0
	@go -C test/upstream test ./patches
	@go -C test/upstream run ./patch $(UPSTREAM_DIR)
	@echo "the specs: compiled once (about 4 minutes on 2 cores), afterwards from Go's build cache"
	@hack/progress.sh go -C test/upstream test -c -v -tags e2e,$(TAG) -modfile=$(UPSTREAM_DIR)/go.mod -o $(UPSTREAM_DIR)/upstream.test .
	@go -C test/upstream build -o $(UPSTREAM_DIR)/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	@export UPSTREAM_SOURCE=$(CURDIR)/test/upstream UPSTREAM_KUBECONFIG=$(abspath $(KUBECONFIG_UPSTREAM)) \
		UPSTREAM_MODULE=$$(go -C test/upstream list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test); \
	$(UPSTREAM_DIR)/upstream.test -test.run TestCatalogue || exit 1; \
	code=0; set -m; $(UPSTREAM_DIR)/ginkgo run --no-color -procs $(UPSTREAM_PROCS) -timeout 3h -focus '$(UPSTREAM)' $(UPSTREAM_FLAGS) \
		$(UPSTREAM_DIR)/upstream.test & run=$$!; \
	trap 'kill -TERM -- -$$run' INT TERM; \
	wait $$run || code=$$?; while kill -0 $$run 2>/dev/null; do wait $$run || code=$$?; done; exit $$code

# The Go module proxy does not have the autoscaler, so it is built from its repository: of branch cluster-autoscaler-release-1.37, the first that
# removes nodes of a MachinePool. This commit is older than tag 1.37.0.
AUTOSCALER_SOURCE := https://github.com/kubernetes/autoscaler
AUTOSCALER_COMMIT := a16f0ae8b5578f09604371c75e0cad29ed794e59

$(BIN)/cluster-autoscaler:
	@echo "cluster-autoscaler $(AUTOSCALER_COMMIT) into bin/ (some minutes, once)"
	@source=$$(mktemp -d); trap 'rm -rf "$$source"' EXIT; \
	git init --quiet "$$source" && git -C "$$source" fetch --quiet --depth 1 $(AUTOSCALER_SOURCE) $(AUTOSCALER_COMMIT) && \
	git -C "$$source" checkout --quiet FETCH_HEAD && \
	GOFLAGS='-trimpath -buildvcs=false -tags=clusterapi' go -C "$$source/cluster-autoscaler" build -o $(CURDIR)/$@ .

.PHONY: test-autoscaler
test-autoscaler: kube build $(BIN)/cluster-autoscaler ## Test with the real cluster-autoscaler (test/autoscaler)
	$(ON_SERVERS) ./test/autoscaler -count 1 -v

.PHONY: nightly
nightly: kube build ## Run what .ci/run leaves out, and print what passed, failed and was skipped (hours)
	@MAKE="$(MAKE)" hack/nightly.sh

.PHONY: test-dashboards
test-dashboards: kube build prometheus $(KUBE_STATE_METRICS) ## Test alerts and dashboards with a real Prometheus (test/dashboards)
	KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(BIN)} go test ./test/dashboards -count 1 -timeout 20m -v -live

# Prometheus and promtool are Debian's. Without them the tests that need them are skipped with a message.
.PHONY: prometheus
prometheus:
	@if ! { command -v prometheus && command -v promtool; } >/dev/null; then \
		[ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus || \
			echo "Debian's package prometheus is not installed and could not be: tests that need it are skipped" >&2; \
	fi

.PHONY: clean
clean: ## Remove what was built (Go's build cache stays)
	rm -rf $(BIN) out _artifacts
