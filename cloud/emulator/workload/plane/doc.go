// SPDX-License-Identifier: Apache-2.0

// Package plane runs Kubernetes control planes on this machine: the real kube-apiserver, kube-controller-manager and
// kube-scheduler as child processes over an etcd that many of them share.
//
// A Plane keeps its keys, certificates, port and etcd prefix for its whole life, so that its API server can be stopped
// and started again with the binary of another version: that is how a cluster is upgraded, and a kubeconfig handed out
// before stays valid. Everything listens on loopback unless told otherwise.
package plane
