// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"
)

func TestVersionsAreOrderedAndUsable(t *testing.T) {
	versions := Versions()
	if len(versions) < 2 || !slices.IsSorted(versions) {
		t.Errorf("versions %v, want two or more, oldest first", versions)
	}
	for _, version := range versions {
		if _, err := serverBinary(version); err != nil {
			t.Error(err)
		}
	}
	_, err := serverBinary("v1.2.3")
	if err == nil || !strings.Contains(err.Error(), versions[0]) {
		t.Errorf("error %v, want one that lists the available versions", err)
	}
}

func TestMissingBinariesAreAnError(t *testing.T) {
	_, err := New(t.Context(), Options{BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make kube") {
		t.Errorf("error %v, want one that names make kube", err)
	}
}

func TestAddressesThatCannotBeListenedOn(t *testing.T) {
	for _, address := range []string{"portal.example", "192.0.2.1"} {
		if clusters, err := New(t.Context(), Options{BinDir: binDir, WorkDir: t.TempDir(), Bind: address}); err == nil {
			t.Errorf("listens on %s", address)
			_ = clusters.Close()
		} else if !strings.Contains(err.Error(), address) {
			t.Error(err)
		}
	}
}
