// Package ports finds TCP ports for programs that have to be told theirs, and that may be
// ended and started again.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// The ports that are chosen from. The system gives none of them to a connection, nor to
// who listens at port 0 (net.ipv4.ip_local_port_range begins with 32768): one that is free
// is still free when a program gets to it, and while that is started again.
const (
	least = 10000
	most  = 29999 // beyond are those of Services
)

// Row finds n free ports in a row and answers the first. Nobody listens at them, at
// whatever address.
func Row(n int) (first int, err error) {
	const attempts = 1000
	for range attempts {
		first = least + rand.IntN(most-least-n+2)
		if err = free(first, n); err == nil {
			return first, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return 0, fmt.Errorf("finding %d free ports: %w", n, err)
}

func free(first, n int) error {
	for i := range n {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(first+i))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
