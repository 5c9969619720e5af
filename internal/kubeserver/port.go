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

// Ports are taken from below the range from which systems take the local ports of outgoing connections (32768 and up on Linux, 49152
// elsewhere). A server that restarts must find its port free, and any outgoing connection could take a port of that range.
const (
	firstPort = 20000
	lastPort  = 32000
)

var errNoPort = errors.New("no free port found")

// FreePort returns a TCP port on which no program listens at the address. The port is reserved until ReleasePort or the end of this process:
// FreePort does not return it to any other process of this user, even before a server listens on it.
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

// ReleasePort lets FreePort return the port again. No server may need it any more.
func ReleasePort(port int) {
	reservations.Lock()
	defer reservations.Unlock()
	if file := reservations.files[port]; file != nil {
		_ = file.Close() // which unlocks it
		delete(reservations.files, port)
	}
}

// reserve locks the port's file until ReleasePort or the end of this process.
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
	reservations.files[port] = file
	return true, nil
}

// reservations keeps the locked files open, by port.
var reservations = struct {
	sync.Mutex
	files map[int]*os.File
}{files: map[int]*os.File{}}
