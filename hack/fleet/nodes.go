// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/nodeapi"
)

// servers are the API servers of the portal's clusters. Each has a port of its own in this process.
type servers struct {
	certificate tls.Certificate
	authority   []byte

	mu  sync.Mutex
	all map[string]*server // by the portal's cluster id
}

func newServers() (*servers, error) {
	certificate, authority, err := nodeapi.NewCertificate()
	return &servers{certificate: certificate, authority: authority, all: map[string]*server{}}, err
}

// Apply implements emulator.Workloads.
func (s *servers) Apply(_ context.Context, cluster emulator.Workload) ([]emulator.Removal, error) {
	one, err := s.server(cluster.ID)
	if err != nil {
		return nil, err
	}
	one.apply(cluster)
	return nil, nil
}

// server returns the API server of a cluster, and starts it on the first call.
func (s *servers) server(id string) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[id]; one != nil {
		return one, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	one := newServer(listener.Addr().String())
	one.http = &http.Server{
		Handler: one, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12},
	}
	s.all[id] = one
	go func() { _ = one.http.ServeTLS(listener, "", "") }() // until it is closed
	return one, nil
}

// Kubeconfig implements emulator.Workloads.
func (s *servers) Kubeconfig(_ context.Context, clusterID string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[clusterID]
	if one == nil {
		return nil, errors.New("no such cluster")
	}
	return nodeapi.Kubeconfig(one.address, s.authority)
}

// Delete implements emulator.Workloads.
func (s *servers) Delete(_ context.Context, clusterID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[clusterID]
	if one == nil {
		return nil
	}
	delete(s.all, clusterID)
	return one.http.Close()
}

func nodeOf(n emulator.Node) *corev1.Node {
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID("uid-" + n.ID), CreationTimestamp: metav1.Now()},
		Spec:       corev1.NodeSpec{ProviderID: n.ProviderID},
	}
	if n.ControlPlane {
		node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
		node.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Status.NodeInfo.KubeletVersion = n.Version
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		})
	}
	return node
}
