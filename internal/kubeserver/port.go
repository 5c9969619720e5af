// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports come from below the range from which systems take the local ports of outgoing connections (32768 and up on
// Linux, 49152 elsewhere): a server that restarts must find its port free, and a connection of anybody's could have
// taken one from that range.
const (
	firstPort = 20000
	lastPort  = 32000
)

var errNoPort = errors.New("no free port found")

// FreePort returns a TCP port on which nothing listens at the address. It is this process's until it ends: no other
// process of this user gets it from FreePort, even before anything listens on it.
func FreePort(address string) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if reserved, err := reserve(port); err != nil {
			return 0, err
		} else if !reserved {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errNoPort
}

// reserve takes the lock on a port's file, for as long as this process lives.
func reserve(port int) (bool, error) {
	dir := filepath.Join(os.TempDir(), "portal-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, file.Close()
	}
	reservations.Lock()
	defer reservations.Unlock()
	reservations.files = append(reservations.files, file)
	return true, nil
}

// reservations keeps the locked files open.
var reservations struct {
	sync.Mutex
	files []*os.File
}
