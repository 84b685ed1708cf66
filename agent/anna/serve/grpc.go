package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/medusa"
)

// mostOfCall is of a request, in bytes: it holds a name.
const mostOfCall = 64 << 10

// The wait before listening is tried again, doubled each time up to the longest.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// serveGRPC serves Medusa's service until the context ends. Whatever goes wrong is told,
// and tried again.
func (s *server) serveGRPC(ctx context.Context) {
	pause := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		err := s.listenGRPC(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestWait {
			pause = firstWait
		}
		s.Log.Error("Medusa's service does not run and is started again", "port", s.GRPCPort, "error", fmt.Sprint(err), "wait_seconds", pause.Seconds())
		wait(ctx, pause)
		pause = min(2*pause, longestWait)
	}
}

func (s *server) listenGRPC(ctx context.Context) error {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(mostOfCall), grpc.ConnectionTimeout(10 * time.Second), grpc.MaxConcurrentStreams(64),
		// Who pings often is no attacker: the controller may.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute}),
	}
	var pair *nodeserver.Pair
	if s.TLSDir != "" {
		pair = nodeserver.NewPair(s.TLSDir)
		if !pair.Await(ctx, s.Log.With("service", "medusa")) {
			return nil
		}
		options = append(options, grpc.Creds(credentials.NewTLS(pair.TLS("h2"))))
	}
	options = append(options, grpc.UnaryInterceptor(s.guard(pair)))
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.Address, strconv.Itoa(s.GRPCPort)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer(options...)
	medusa.RegisterMedusaServer(server, service{server: s})
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	// Nothing that is answered here is worth a wait at the container's end.
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	s.Log.Info("Medusa's service runs", "port", s.GRPCPort, "tls", pair != nil)
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// guard keeps out who would not be let in any more, and has a panic be the answer to one
// call and not the end of the sidecar.
func (s *server) guard(pair *nodeserver.Pair) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				s.Log.Error("a call has panicked", "method", info.FullMethod, "error", fmt.Sprint(cause), "stack", string(debug.Stack()))
				answer, err = nil, status.Error(codes.Internal, "the sidecar has panicked; its log tells why")
			}
		}()
		if pair != nil && !admitted(ctx, pair) {
			return nil, status.Error(codes.Unavailable, "the authorities have changed, or the certificate has expired, since this connection was made: make another")
		}
		return next(ctx, request)
	}
}

func admitted(ctx context.Context, pair *nodeserver.Pair) bool {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	return ok && pair.Admits(&info.State)
}
