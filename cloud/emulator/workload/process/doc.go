// SPDX-License-Identifier: Apache-2.0

// Package process runs servers as child processes that do not outlive this one.
//
// A server here is an etcd, a kube-apiserver, a manager. Start returns when it answers its readiness probe, or with
// the end of its log when it does not. Stop asks it to end with SIGTERM and kills it when it takes too long.
//
// Three things keep stray processes away. Stop waits for the end of the process it stops. Children have a process
// group of their own, so that a Ctrl-C in the terminal reaches this process only, which then stops them in the right
// order. And, on Linux, the kernel kills a child when this process ends without having stopped it: after a crash,
// after kill -9, or when a test's time is over.
package process
