// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	providerName      = "portal"
	providerNamespace = "capportal-system"
	components        = "infrastructure-components.yaml"
)

// provider is this provider's release as make release-manifests wrote it.
type provider struct {
	dir     string // of the release's files
	version string
	image   string // of the manager
}

func releasedProvider(root string) (provider, error) {
	p := provider{dir: filepath.Join(root, "out")}
	settings, err := os.ReadFile(filepath.Join(root, "clusterctl-settings.json"))
	if err != nil {
		return p, err
	}
	var parsed struct {
		Config struct {
			NextVersion string `json:"nextVersion"`
		} `json:"config"`
	}
	if err := json.Unmarshal(settings, &parsed); err != nil {
		return p, err
	}
	p.version = parsed.Config.NextVersion
	manifests, err := os.ReadFile(filepath.Join(p.dir, components))
	if err != nil {
		return p, fmt.Errorf("run make release-manifests: %w", err)
	}
	_, after, found := strings.Cut(string(manifests), " image: ")
	if !found {
		return p, fmt.Errorf("%s names no image", components)
	}
	p.image, _, _ = strings.Cut(after, "\n")
	return p, nil
}

// repository copies the release to the path that clusterctl expects of a local repository, and returns the URL.
func (p provider) repository(dir string) (string, error) {
	release := filepath.Join(dir, "infrastructure-"+providerName, p.version)
	return filepath.Join(release, components), os.CopyFS(release, os.DirFS(p.dir))
}

// clusterctl runs the clusterctl binary with a configuration that names the provider's local repository.
type clusterctl struct {
	path, config, home string
	core, provider     string // name:version, as clusterctl init wants them
}

func newClusterctl(ctx context.Context, root, dir string, p provider) (clusterctl, error) {
	c := clusterctl{
		path:     cmp.Or(os.Getenv("E2E_CLUSTERCTL"), filepath.Join(root, "bin", "clusterctl")),
		config:   filepath.Join(dir, "clusterctl.yaml"),
		home:     dir,
		provider: providerName + ":" + p.version,
	}
	if _, err := os.Stat(c.path); err != nil {
		return c, fmt.Errorf("run make kube: %w", err)
	}
	url, err := p.repository(dir)
	if err != nil {
		return c, err
	}
	var config struct {
		Providers []map[string]string `json:"providers"`
	}
	others := map[string]any{}
	if file := os.Getenv("E2E_CLUSTERCTL_CONFIG"); file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return c, err
		}
		if err := errors.Join(yaml.Unmarshal(content, &others), yaml.Unmarshal(content, &config)); err != nil {
			return c, fmt.Errorf("%s: %w", file, err)
		}
	}
	others["providers"] = append(config.Providers, map[string]string{
		"name": providerName, "type": "InfrastructureProvider", "url": url,
	})
	content, err := yaml.Marshal(others)
	if err != nil {
		return c, err
	}
	// The version of core that go.mod requires.
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api").Output()
	c.core = "cluster-api:" + strings.TrimSpace(string(version))
	return c, errors.Join(err, os.WriteFile(c.config, content, 0o600))
}

// run runs clusterctl for a management cluster, with additional environment variables, and returns its standard output. Errors contain its
// standard error.
func (c clusterctl) run(ctx context.Context, m *management, environment []string, arguments ...string) (string, error) {
	arguments = append(arguments, "--config", c.config, "--kubeconfig", m.kubeconfig)
	command := exec.CommandContext(ctx, c.path, arguments...)
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+c.home, "CLUSTER_TOPOLOGY=true")
	command.Env = append(command.Env, environment...)
	var said bytes.Buffer
	command.Stderr = &said
	printed, err := command.Output()
	if err != nil {
		err = fmt.Errorf("clusterctl %s: %w\n%s", strings.Join(arguments, " "), err, said.Bytes())
	}
	return string(printed), err
}

// init installs Cluster API and the provider. Bootstrap and control plane providers are not needed, because the portal does their work.
func (c clusterctl) init(ctx context.Context, m *management) error {
	if _, err := c.run(ctx, m, nil, "init", "--core", c.core, "--bootstrap", "-", "--control-plane", "-",
		"--infrastructure", c.provider, "--wait-providers"); err != nil {
		return err
	}
	return m.waitForWebhooks(ctx)
}

// remove deletes what init installed of the provider.
func (c clusterctl) remove(ctx context.Context, m *management) error {
	_, err := c.run(ctx, m, nil, "delete", "--infrastructure", providerName, "--include-crd", "--include-namespace")
	return err
}
