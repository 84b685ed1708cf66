package sidecartest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// The ports that are chosen from. A system gives none of them to a connection, nor to
// whoever asks for any port: what is given up and taken again a moment later is still
// free then.
const firstPort, ports = 10000, 20000

// listen listens at an address, at a port of its choice.
func listen(ip string) (net.Listener, error) {
	var err error
	for range 100 {
		var listener net.Listener
		listener, err = net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(firstPort+rand.IntN(ports))))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
	}
	return nil, fmt.Errorf("no port of a hundred is free: %w", err)
}
