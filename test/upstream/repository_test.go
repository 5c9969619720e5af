// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
)

// provider is clusterctl's name of this provider, with the version that make test-upstream renders.
const provider = "portal:v0.1.0"

// writeRepository writes a local clusterctl repository with the release manifests and the flavors that only upstream's specs need, and
// returns the path of a clusterctl configuration that names it.
func writeRepository(artifacts string) string {
	release := filepath.Join(root, "bin", "upstream", "release")
	Expect(filepath.Join(release, "infrastructure-components.yaml")).To(BeAnExistingFile(), "make test-upstream renders the release manifests")
	version := filepath.Join(artifacts, "repository", "infrastructure-portal", "v0.1.0")
	Expect(os.CopyFS(version, os.DirFS(release))).To(Succeed())
	read := func(path string) string {
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}
	topology := read(filepath.Join(release, "cluster-template-topology.yaml"))
	const replicas = "          replicas: ${WORKER_MACHINE_COUNT:=0}\n"
	Expect(topology).To(ContainSubstring(replicas))
	const withPool = `      machinePools:
        - class: default-worker
          name: pool
          replicas: 1
`
	for flavor, text := range map[string]string{
		"topology-pool": topology + withPool,
		// The autoscaler sets the replicas.
		"topology-autoscaler": strings.Replace(topology, replicas, `          metadata:
            annotations:
              cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "2"
              cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "5"
`, 1),
	} {
		Expect(os.WriteFile(filepath.Join(version, "cluster-template-"+flavor+".yaml"), []byte(text), 0o600)).To(Succeed())
	}
	config := filepath.Join(artifacts, "clusterctl.yaml")
	text := fmt.Sprintf("providers:\n- name: portal\n  type: InfrastructureProvider\n  url: %s\n",
		filepath.Join(version, "infrastructure-components.yaml"))
	Expect(os.WriteFile(config, []byte(text), 0o600)).To(Succeed())
	return config
}
