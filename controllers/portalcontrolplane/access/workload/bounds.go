// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

const (
	// maxAnswer is how many bytes of an answer are read, unless it is a list of Nodes.
	maxAnswer = 8 << 20
	// MaxNodeList is how many bytes of a list of Nodes are read. A Node of a real kubelet, which reports 50 images, takes 19 kB. So 500
	// Nodes take 9.5 MB, and 880 fit.
	MaxNodeList = 16 << 20
	// maxCommas is how many commas of an answer are read. An empty object has 3 bytes and a comma, and takes 1 kB decoded. A Node of a real
	// kubelet has 320 commas.
	maxCommas = 300_000
	// maxWatch is how many bytes of a watch are read, which lasts 10 minutes at most. 1,000 Nodes of real kubelets send 20 MB.
	maxWatch       = 4 * MaxNodeList
	maxWatchCommas = 4 * maxCommas
	// MaxObjects is how many Nodes are read.
	MaxObjects = 1000
)

var errTooLarge = errors.New("the answer of the API server is too large")

// bounded is the body of an answer, of which no more is read than these bytes and commas.
type bounded struct {
	io.ReadCloser
	bytes, commas int
}

// bound returns the body of an answer within its bounds.
func bound(answer *http.Response) io.ReadCloser {
	b, request := &bounded{ReadCloser: answer.Body, bytes: maxAnswer, commas: maxCommas}, answer.Request
	switch {
	case request.URL.Query().Get("watch") != "":
		b.bytes, b.commas = maxWatch, maxWatchCommas
	case request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/api/v1/nodes"):
		b.bytes = MaxNodeList
	}
	return b
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.bytes < 0 || b.commas < 0 {
		return 0, errTooLarge // client-go reads on
	}
	n, err := b.ReadCloser.Read(p)
	b.bytes -= n
	b.commas -= bytes.Count(p[:n], []byte{','})
	if b.bytes < 0 || b.commas < 0 {
		return 0, errTooLarge
	}
	return n, err
}
