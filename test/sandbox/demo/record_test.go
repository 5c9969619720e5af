// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestRecorded checks that a recording is written of what the page showed during a life, and only if the life succeeds.
func TestRecorded(t *testing.T) {
	portal, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer portal.Close()
	shown, err := page.Listen(t.Context(), "127.0.0.1:0", page.Options{Portal: portal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shown.Close() }()
	file := filepath.Join(t.TempDir(), "recording")
	about := page.About{Name: "a test", Version: "v1", Seed: portal.Seed()}

	failure := errors.New("a step failed")
	fails := func(context.Context) error { return failure }
	if err := recorded(t.Context(), file, shown.URL, about, fails); !errors.Is(err, failure) {
		t.Errorf("a life that fails ends with %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a life that fails is kept")
	}
	if err := recorded(t.Context(), file, "http://127.0.0.1:1/", about, fails); err == nil || errors.Is(err, failure) {
		t.Errorf("without the page, the life begins: %v", err)
	}

	life := func(context.Context) error { return portal.SetVictimOrder(emulator.VictimsOldest) }
	if err := recorded(t.Context(), file, shown.URL, about, life); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := page.ReadRecording(data)
	if err != nil {
		t.Fatal(err)
	}
	last := recording.Events[len(recording.Events)-1]
	if first := recording.Events[0]; bytes.Contains(first.Data, []byte("oldest")) || !bytes.Contains(last.Data, []byte("oldest")) {
		t.Errorf("the recording begins with %s and ends with %s", first.Data, last.Data)
	}
	if recording.About.Seed != portal.Seed() {
		t.Errorf("the recording is said to be of seed %d, not %d", recording.About.Seed, portal.Seed())
	}
}
