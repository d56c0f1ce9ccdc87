package bed

// Free TCP ports on loopback. Another program may take one before its server
// binds it; whoever starts a server tries again with another port.

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Below what Linux and macOS hand out for outgoing connections, so that no
// client's own end can sit on a port that was free a moment ago.
const firstPort, lastPort = 20000, 31999

// ports remembers what it gave away: a server binds its port only later.
type ports struct {
	mu    sync.Mutex
	given map[int]bool
}

func newPorts() *ports {
	return &ports{given: map[int]bool{}}
}

func (p *ports) free() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if p.given[port] {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			continue
		}
		p.given[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1 found")
}
