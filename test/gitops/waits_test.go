// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/utils/ptr"
)

// waits runs the kubectl wait commands of the page.
func (f *fixture) waits() {
	f.Helper()
	all, err := pages.Waits()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(all).NotTo(BeEmpty(), "kubectl wait commands of the page")
	for _, arguments := range all {
		f.Expect(f.kubectlWait(arguments)).To(Succeed(), "kubectl wait %q", arguments)
	}
}

// kubectlWait runs kubectl wait with kubectl's own package.
func (f *fixture) kubectlWait(arguments []string) error {
	config := genericclioptions.NewConfigFlags(false)
	config.KubeConfig, config.Namespace = ptr.To(box.Kubeconfig), ptr.To(f.Namespace)
	var output bytes.Buffer
	flags := wait.NewWaitFlags(config, genericiooptions.IOStreams{In: &output, Out: &output, ErrOut: &output})
	command := &cobra.Command{}
	flags.AddFlags(command)
	if err := command.ParseFlags(arguments); err != nil {
		return err
	}
	options, err := flags.ToOptions(command.Flags().Args())
	if err != nil {
		return err
	}
	return options.RunWaitContext(f.Context())
}
