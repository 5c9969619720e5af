// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range from which systems take the local ports of outgoing connections (32768 and up on
// Linux, 49152 elsewhere): a server that restarts must find its port free, and a connection of anybody's could have
// taken one from that range meanwhile.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMu sync.Mutex
	handed  = map[int]bool{}
)

var errNoPort = errors.New("no free port found")

// FreePort returns a TCP port on which nothing listens at the address, and which this process has not handed out before.
func FreePort(address string) (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if handed[port] {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		handed[port] = true
		return port, listener.Close()
	}
	return 0, errNoPort
}
