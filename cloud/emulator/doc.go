// SPDX-License-Identifier: Apache-2.0

// Package emulator is the cloud portal itself, as a server: the REST API of the specification, strict about every
// request, with jobs, rate limits and faults. It knows nothing of the client that talks to it, nor of Kubernetes.
//
// # Use
//
//	p, err := emulator.New(emulator.Options{})    // starts nothing
//	defer p.Close()                               // ends jobs, waits for them, deletes workload clusters
//	email, password := p.Credentials()
//	client := &http.Client{Transport: p.Transport()} // in-process, works in testing/synctest bubbles
//	err = p.Listen("127.0.0.1:0")                 // or over TLS: p.URL() and p.CAPEM()
//
// What happened stands in [Portal.Journal]; what is there, in [Portal.Clusters], [Portal.Jobs], [Portal.Instances],
// [Portal.Networks], [Portal.VPCs] and [Portal.Volumes]. [Portal.Violations] are the requests that a correct client would not
// have sent.
package emulator
