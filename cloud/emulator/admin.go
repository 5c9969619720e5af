// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// AdminHandler serves the API by which people and tests control a running emulator. It is not part of the portal:
//
//	GET    /ca               the certificate that clients of the portal have to trust, PEM
//	GET    /faults           the faults there are, with what they did
//	POST   /faults           arms one fault or all of a list
//	DELETE /faults           removes all faults
//	DELETE /faults/{id}      removes one
//	GET    /victim-order     the order in which scale-downs remove workers
//	PUT    /victim-order     changes that order
//	GET    /request-log      the request log as JSON, or as text with ?format=text
//	GET    /clusters         the clusters of all accounts, with their nodes
//	POST   /clusters/{id}/rotate  changes how a running cluster is reached (Rotation), as in {"credentials": true, "endpoint": true}
//	POST   /clusters/{id}/repair  does what the portal's operator does for a cluster in Alert, or whose job is stuck (Portal.Repair)
//	GET    /instances        the machines of all accounts
//	POST   /instances/{id}/stop   stops a machine, as the failure of its host does
//	POST   /instances/{id}/start  starts it again
//	GET    /jobs             the jobs of all accounts
//	GET    /volumes          the volumes of all accounts
//	GET    /mailbox/{email}  the mails to an address, with reset tokens
func (p *Portal) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ca", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(p.CAPEM()) // the reader may have gone
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, p.Faults()) })
	mux.HandleFunc("POST /faults", p.adminInject)
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		p.ClearFaults()
		writeAdmin(w, p.Faults())
	})
	mux.HandleFunc("DELETE /faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !p.RemoveFault(r.PathValue("id")) {
			http.Error(w, "there is no such fault", http.StatusNotFound)
			return
		}
		writeAdmin(w, p.Faults())
	})
	mux.HandleFunc("GET /victim-order", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, removalOrder{p.VictimOrder()}) })
	mux.HandleFunc("PUT /victim-order", p.adminSetVictimOrder)
	mux.HandleFunc("GET /request-log", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") == "text" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = p.WriteRequestLog(w) // the reader may have gone
			return
		}
		writeAdmin(w, p.RequestLog())
	})
	mux.HandleFunc("GET /clusters", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, p.Clusters()) })
	mux.HandleFunc("POST /clusters/{id}/rotate", p.adminRotate)
	mux.HandleFunc("POST /clusters/{id}/repair", func(w http.ResponseWriter, r *http.Request) {
		if err := p.Repair(r.PathValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeAdmin(w, p.Clusters())
	})
	mux.HandleFunc("GET /instances", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, p.Instances()) })
	mux.HandleFunc("POST /instances/{id}/stop", p.adminPower(p.StopMachine))
	mux.HandleFunc("POST /instances/{id}/start", p.adminPower(p.StartMachine))
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, p.Jobs()) })
	mux.HandleFunc("GET /volumes", func(w http.ResponseWriter, _ *http.Request) { writeAdmin(w, p.Volumes()) })
	mux.HandleFunc("GET /mailbox/{email}", func(w http.ResponseWriter, r *http.Request) {
		writeAdmin(w, p.Mailbox(r.PathValue("email")))
	})
	return localOnly(new(http.CrossOriginProtection).Handler(mux))
}

func (p *Portal) adminInject(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	faults, err := ParseFaults(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := p.Inject(faults...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeAdmin(w, p.Faults())
}

// adminPower stops or starts the machine of the request.
func (p *Portal) adminPower(set func(context.Context, string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := set(r.Context(), r.PathValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeAdmin(w, p.Instances())
	}
}

func (p *Portal) adminRotate(w http.ResponseWriter, r *http.Request) {
	var what Rotation
	answerChange(w, r, &what, func() error { return p.Rotate(r.Context(), r.PathValue("id"), what) })
}

// removalOrder is the body of /victim-order.
type removalOrder struct {
	VictimOrder VictimOrder `json:"victimOrder"`
}

func (p *Portal) adminSetVictimOrder(w http.ResponseWriter, r *http.Request) {
	var body removalOrder
	answerChange(w, r, &body, func() error { return p.SetVictimOrder(body.VictimOrder) })
}

// answerChange reads the body of the request, makes the change, and answers with the body.
func answerChange(w http.ResponseWriter, r *http.Request, body any, change func() error) {
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(body)
	if err == nil {
		err = change()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeAdmin(w, body)
}

func writeAdmin(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(body) // the reader may have gone
}

// localOnly refuses requests for another host, so that no web page can steer the emulator through a name that
// resolves to loopback. A web page that names the loopback address itself is refused as cross-origin.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "the admin listener answers to loopback addresses only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ListenAdmin serves AdminHandler on a loopback address in the background until Close, and returns its URL. It is
// plain HTTP, for curl: it is for this machine only, and no part of the portal.
func (p *Portal) ListenAdmin(addr string) (string, error) {
	listener, err := new(net.ListenConfig).Listen(p.ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = listener.Close() // it served nothing
		return "", fmt.Errorf("the admin listener must be on a loopback address, not %s", listener.Addr())
	}
	server := &http.Server{Handler: p.AdminHandler(), ReadHeaderTimeout: headerTimeout}
	err = p.serve(server, listener, func() error { return server.Serve(listener) })
	return "http://" + listener.Addr().String(), err
}
