package ports

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Those that are found are within what the system does not give away, and one after the
// other.
func TestRow(t *testing.T) {
	for n := 1; n <= 8; n++ {
		first, err := Row(n)
		if err != nil || first < least || first+n-1 > most {
			t.Fatalf("%d ports: from %d on, %v", n, first, err)
		}
		for i := range n {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
		}
		// One of them is taken now, at one address only.
		if err := free(first, n); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%d ports of which somebody listens at one: %v", n, err)
		}
	}
}
