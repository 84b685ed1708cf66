package wire

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Ports of Anna; where a process has threads, thread t listens on the port plus t.
const (
	PortJoin              = 6000 // KVS: TIER:public:private:count
	PortDepart            = 6050 // KVS: TIER:public:private
	PortSelfDepart        = 6100 // KVS: the address to acknowledge to
	PortReplication       = 6150 // KVS: replication factors asked for
	PortRequest           = 6200 // KVS: KeyRequest
	PortGossip            = 6250 // KVS: KeyRequest of a peer
	PortReplicationChange = 6300 // KVS
	PortSeed              = 6350 // routing, REP: anything, answered with Membership
	PortNotify            = 6400 // routing: join:… and depart:…
	PortAddress           = 6450 // routing: AddressRequest
	PortRoutingResponse   = 6500 // routing: replication factors asked for
	PortRoutingChange     = 6550 // routing
	PortMonitorNotify     = 6600 // monitor: join:… and depart:…
	PortMonitorResponse   = 6650 // monitor
	PortDepartDone        = 6700 // monitor: acknowledged self-departs
	PortFeedback          = 6750 // monitor
	PortCacheResponse     = 7050 // KVS: keys cached at an executor's node
	PortManagement        = 7100 // KVS: StringSet of executors' nodes
)

// metadata is how the keys of Anna's own begin: they are kept by the memory tier
// alone, with one replica, and never listed.
const metadata = "ANNA_METADATA|"

// SizeKey is the key under which a thread reports the keys it is the first owner of.
func SizeKey(s Server, tid int, tier Tier) string {
	return metadata + "size|" + s.Public + "|" + s.Private + "|" + strconv.Itoa(tid) + "|" + tier.String()
}

// ReplicationKey is the key under which the replication factors of a key are kept.
func ReplicationKey(key string) string { return metadata + "replication|" + key }

// IsMetadata tells whether a key is one of Anna's own.
func IsMetadata(key string) bool {
	first, _, _ := strings.Cut(key, "|")
	return first+"|" == metadata
}

// Notice is a change of the membership.
type Notice struct {
	Join   bool // else the node departs
	Tier   Tier
	Server Server // of a routing node only Private
	// Count is how often the node has joined: a greater one than before makes the
	// peers send it its keys again.
	Count int64
}

// JoinMessage is what a node sends to routing (PortNotify) and to the monitor
// (PortMonitorNotify); KVS nodes (PortJoin) take it without the first word, see
// Notice.Peer.
func JoinMessage(t Tier, s Server, count int64) string {
	return "join:" + t.String() + ":" + s.Public + ":" + s.Private + ":" + strconv.FormatInt(count, 10)
}

// DepartMessage is the same for a node that is gone.
func DepartMessage(t Tier, s Server) string {
	return "depart:" + t.String() + ":" + s.Public + ":" + s.Private
}

// PeerMessage is a message without its first word, as KVS nodes take it on PortJoin
// and PortDepart.
func PeerMessage(message string) string {
	_, rest, _ := strings.Cut(message, ":")
	return rest
}

// ParseNotice reads a message of either form; one without the first word needs to be
// told which it is.
func ParseNotice(message string) (Notice, error) {
	parts := strings.Split(message, ":")
	var n Notice
	switch {
	case parts[0] == "join" && len(parts) == 5:
		n.Join = true
	case parts[0] == "depart" && len(parts) == 4:
	default:
		return n, fmt.Errorf("%w: notice %q is neither join:TIER:public:private:count nor depart:TIER:public:private", ErrMalformed, message)
	}
	tier, err := ParseTier(parts[1])
	if err != nil {
		return n, fmt.Errorf("%w: notice %q: %w", ErrMalformed, message, err)
	}
	n.Tier, n.Server = tier, Server{parts[2], parts[3]}
	if n.Join {
		if n.Count, err = strconv.ParseInt(parts[4], 10, 64); err != nil {
			return n, fmt.Errorf("%w: notice %q: the count: %w", ErrMalformed, message, err)
		}
	}
	return n, nil
}

// ErrIPv6 is the answer to an address of IPv6: Anna splits its messages at colons.
var ErrIPv6 = errors.New("an IPv6 address: Anna cannot handle them, its messages are split at colons; use a DNS name or an IPv4 address")

// Address is tcp://host:port, as Anna writes addresses.
func Address(host string, port int) (string, error) {
	if err := CheckHost(host); err != nil {
		return "", err
	}
	return "tcp://" + host + ":" + strconv.Itoa(port), nil
}

// CheckHost says what is wrong with a host in Anna's messages.
func CheckHost(host string) error {
	switch {
	case host == "":
		return errors.New("an empty host")
	case strings.Contains(host, ":"):
		return fmt.Errorf("%q: %w", host, ErrIPv6)
	case strings.ContainsAny(host, "|/ \t\r\n"):
		return fmt.Errorf("%q is no host", host)
	}
	return nil
}

// ParseAddress reads tcp://host:port into host and port.
func ParseAddress(address string) (host string, port int, err error) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	if !ok {
		return "", 0, fmt.Errorf("%q is not an address tcp://host:port", address)
	}
	host, text, err := net.SplitHostPort(rest)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not an address tcp://host:port: %w", address, err)
	}
	if err := CheckHost(host); err != nil {
		return "", 0, fmt.Errorf("address %q: %w", address, err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return "", 0, fmt.Errorf("address %q: %q is no port", address, text)
	}
	return host, int(number), nil
}
