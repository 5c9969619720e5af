// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"
)

// playing makes the page play a recording: app.js looks for this element.
const playing = `  <meta name="recording" content="recording">
  <link rel="stylesheet" href="recording.css">
</head>`

// PlayerFiles returns the files of a page that plays a recording, by name. Any server of files can serve them: they need no portal.
func PlayerFiles(recording []byte) (map[string][]byte, error) {
	entries, err := embedded.ReadDir("static")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"recording": recording}
	for _, entry := range entries {
		if files[entry.Name()], err = embedded.ReadFile("static/" + entry.Name()); err != nil {
			return nil, err
		}
	}
	files["index.html"] = bytes.Replace(files["index.html"], []byte("</head>"), []byte(playing), 1)
	return files, nil
}

// ListenPlayer serves a page that plays a recording, as Listen serves the page of a portal.
func ListenPlayer(ctx context.Context, address string, recording []byte) (*Server, error) {
	files, err := PlayerFiles(recording)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")
		content, known := files[name]
		if !known {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	})
	return serve(ctx, address, guarded(mux), func(context.Context) {})
}
