// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	providerName      = "portal"
	providerNamespace = "capportal-system"
	components        = "infrastructure-components.yaml"
)

// provider is this provider's release as make release-manifests wrote it.
type provider struct{ version, image string }

func releasedProvider() (p provider, err error) {
	for _, fact := range []struct {
		file, pattern string
		into          *string
	}{
		{"clusterctl-settings.json", `"nextVersion": *"([^"]+)"`, &p.version},
		{"out/" + components, ` image: (\S+)`, &p.image},
	} {
		content, err := os.ReadFile(filepath.Join(env.root, fact.file))
		if err != nil {
			return p, fmt.Errorf("run make release-manifests: %w", err)
		}
		found := regexp.MustCompile(fact.pattern).FindSubmatch(content)
		if found == nil {
			return p, fmt.Errorf("%s has no %s", fact.file, fact.pattern)
		}
		*fact.into = string(found[1])
	}
	return p, nil
}

// release returns the folder of a release in clusterctl's local repository.
func release(version string) string {
	return filepath.Join(env.dir, "infrastructure-"+providerName, version)
}

// clusterctl runs the clusterctl binary with a configuration that names the provider's local repository.
type clusterctl struct {
	path, config   string
	core, provider string // name:version, as clusterctl init wants them
}

func newClusterctl(ctx context.Context) (clusterctl, error) {
	c := clusterctl{
		path:     cmp.Or(os.Getenv("E2E_CLUSTERCTL"), filepath.Join(env.root, "bin", "clusterctl")),
		config:   filepath.Join(env.dir, "clusterctl.yaml"),
		provider: providerName + ":" + env.provider.version,
	}
	if _, err := os.Stat(c.path); err != nil {
		return c, fmt.Errorf("run make kube: %w", err)
	}
	if err := os.CopyFS(release(env.provider.version), os.DirFS(filepath.Join(env.root, "out"))); err != nil {
		return c, err
	}
	config := map[string]any{}
	if file := os.Getenv("E2E_CLUSTERCTL_CONFIG"); file != "" {
		content, err := os.ReadFile(file)
		if err = errors.Join(err, yaml.Unmarshal(content, &config)); err != nil {
			return c, fmt.Errorf("%s: %w", file, err)
		}
	}
	others, _ := config["providers"].([]any)
	config["providers"] = append(others, map[string]string{
		"name": providerName, "type": "InfrastructureProvider", "url": filepath.Join(release(env.provider.version), components),
	})
	content, err := yaml.Marshal(config)
	if err != nil {
		return c, err
	}
	// The version of core that go.mod requires.
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api").Output()
	c.core = "cluster-api:" + strings.TrimSpace(string(version))
	return c, errors.Join(err, os.WriteFile(c.config, content, 0o600))
}

// run runs clusterctl and returns its standard output. Errors contain its standard error.
func (c clusterctl) run(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, c.path, append(arguments, "--config", c.config, "--kubeconfig", env.home.Kubeconfig)...)
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+env.dir, "CLUSTER_TOPOLOGY=true",
		"PORTAL_ZONE_ID=zone-1", "PORTAL_VPC=default", "PORTAL_SERVICE_OFFERING_ID=offering-4-16", "PORTAL_SSH_KEY_PAIR=ops")
	var said bytes.Buffer
	command.Stderr = &said
	printed, err := command.Output()
	if err != nil {
		err = fmt.Errorf("clusterctl %s: %w\n%s", strings.Join(arguments, " "), err, said.Bytes())
	}
	return string(printed), err
}

// init installs Cluster API and the provider. Bootstrap and control plane providers are not needed, because the portal does their work.
func (c clusterctl) init(ctx context.Context) error {
	_, err := c.run(ctx, "init", "--core", c.core, "--bootstrap", "-", "--control-plane", "-", "--infrastructure", c.provider, "--wait-providers")
	return err
}

// remove deletes what init installed of the provider.
func (c clusterctl) remove(ctx context.Context) error {
	_, err := c.run(ctx, "delete", "--infrastructure", providerName, "--include-crd", "--include-namespace")
	return err
}
