// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forward makes a port of a Pod available on this machine's loopback.
type forward struct {
	url  string
	end  chan struct{}
	done chan struct{}
}

// forwardTo opens a forward and keeps it open. When the connection breaks, for example because a kubelet restarts, it opens a new one on
// the same local port.
func forwardTo(m *management, pod *corev1.Pod, port int) (forward, error) {
	f := forward{end: make(chan struct{}), done: make(chan struct{})}
	local, broken, err := f.open(m, pod, fmt.Sprintf("0:%d", port))
	if err != nil {
		return f, err
	}
	f.url = fmt.Sprintf("http://127.0.0.1:%d", local)
	go func() {
		defer close(f.done)
		for {
			<-broken //nolint:errcheck // The reason does not matter.
			select {
			case <-f.end:
				return
			default:
			}
			_, again, err := f.open(m, pod, fmt.Sprintf("%d:%d", local, port))
			if err != nil {
				time.Sleep(200 * time.Millisecond)
				continue // broken is closed
			}
			broken = again
		}
	}()
	return f, nil
}

// open forwards until the connection breaks or the forward is stopped.
func (f forward) open(m *management, pod *corev1.Pod, ports string) (local uint16, broken <-chan error, err error) {
	clientset, err := kubernetes.NewForConfig(m.config)
	if err != nil {
		return 0, nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(m.config)
	if err != nil {
		return 0, nil, err
	}
	url := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ready := make(chan struct{})
	forwarder, err := portforward.New(dialer, []string{ports}, f.end, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts(); close(ended) }()
	select {
	case err := <-ended:
		return 0, nil, err
	case <-ready:
	}
	open, err := forwarder.GetPorts()
	if err != nil {
		return 0, nil, err
	}
	return open[0].Local, ended, nil
}

func (f forward) stop() {
	if f.end != nil {
		close(f.end)
		<-f.done
	}
}
