// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// lastLook is how long a recording shows the end. The page gets the last state in less time.
const lastLook = 2 * time.Second

// recorded runs a life and, if it succeeds, writes a recording of what a browser got in the meantime that had the page at url open.
func recorded(ctx context.Context, file, url string, about page.About, life func(context.Context) error) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	request, err := http.NewRequestWithContext(watching, http.MethodGet, url+"events", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("recording: the page answered %s", response.Status)
	}
	var data bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- page.Record(&data, about, response.Body) }()
	if err := life(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lastLook):
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("recording: %w", err)
	}
	if _, err := page.ReadRecording(data.Bytes()); err != nil { // the player reads it in the same way
		return fmt.Errorf("recording: %w", err)
	}
	return os.WriteFile(file, data.Bytes(), 0o644) //nolint:gosec // A recording has no secrets.
}
