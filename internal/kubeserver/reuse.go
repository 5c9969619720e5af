// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"fmt"
)

// Detach ends the servers around the API server, the connections of users, and releases their port. The API server runs on, until Reuse or Stop. The
// plane must be Reusable.
func (p *Plane) Detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killOthers()
	p.shutDoor()
	p.releasePorts(forUsers)
}

// Reuse gives the API server of a detached plane to the cluster with the given name. It replaces the authorities, the credentials and the port
// of users, and returns when the API server accepts the new credentials, which is also when it refuses the old ones. The caller removes the
// objects of the previous cluster.
func (p *Plane) Reuse(ctx context.Context, name string) error {
	next := *p.access.Load()
	next.name = name
	p.access.Store(&next)
	if err := p.Rotate(true, true, true); err != nil {
		return err
	}
	// The API server watches the files of its certificate and of the users' authority. Its probe uses the new authority and credentials, so
	// it fails until the API server has read both.
	if err := p.apiserver.awaitReady(ctx); err != nil {
		return fmt.Errorf("kube-apiserver does not serve with its new certificates: %w", err)
	}
	return p.openDoor()
}

// openDoor lets users connect to the API server of a Reusable plane.
func (p *Plane) openDoor() error {
	if p.inner == 0 {
		return nil
	}
	opened, err := openDoor(HostPort(p.options.Bind, p.access.Load().port), HostPort(p.local()))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.door = opened
	return nil
}

// shutDoor ends the connections of users. Callers hold mu.
func (p *Plane) shutDoor() {
	p.door.shut()
	p.door = nil
}
