// Command annaclient writes and verifies the data of test/kvs from inside a cluster. It
// prints JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/test/kvs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// wanted is what the flags say.
type wanted struct {
	data    kvs.Data
	version int
	newer   int // every how manieth number is of the version after it; 0 for none
	every   int // only every how manieth number
	limit   time.Duration
}

func run(ctx context.Context) error {
	var o client.Options
	var w wanted
	routing := flag.String("routing", "", "routing hosts, separated by commas")
	flag.IntVar(&o.RoutingThreads, "routing-threads", 1, "threads of a routing node")
	flag.StringVar(&o.Advertise, "advertise", os.Getenv("POD_IP"), "this host, as servers dial it")
	flag.StringVar(&o.Listen, "listen", ":6980", "where answers are taken, there and one port after it")
	flag.IntVar(&w.data.Keys, "keys", 1000, "how many keys there are")
	flag.IntVar(&w.data.Large, "large", 1, "how many of them have 100 kB")
	flag.Uint64Var(&w.data.Seed, "seed", 1, "what the values are made of")
	flag.IntVar(&w.version, "version", 0, "of the values")
	flag.IntVar(&w.newer, "newer", 0, "every how manieth number is one version newer")
	flag.IntVar(&w.every, "every", 1, "only every how manieth number")
	flag.DurationVar(&w.limit, "limit", 5*time.Minute, "how long await tries")
	flag.Parse()
	o.Routing = strings.Split(*routing, ",")
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c, err := client.New(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	var found any
	switch verb := flag.Arg(0); verb {
	case "load":
		found, err = w.load(ctx, c)
	case "verify":
		found, err = w.data.Verify(ctx, c, w.versionOf, w.pick)
	case "await":
		found, err = w.await(ctx, c)
	case "members":
		found, err = c.Members(ctx)
	default:
		return fmt.Errorf("%q is not load, verify, await or members", verb)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"found": found, "seconds": time.Since(began).Seconds()})
}

func (w wanted) pick(i int) bool { return w.every < 2 || i%w.every == 0 }

func (w wanted) versionOf(i int) int {
	if w.newer > 0 && i%w.newer == 0 {
		return w.version + 1
	}
	return w.version
}

func (w wanted) load(ctx context.Context, c *client.Client) (int64, error) {
	return w.data.Load(ctx, c, w.version, w.pick)
}

// await verifies until everything is right in one pass.
func (w wanted) await(ctx context.Context, c *client.Client) (kvs.Verified, error) {
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	for {
		v, err := w.data.Verify(ctx, c, w.versionOf, w.pick)
		if err == nil && v.Wrong == 0 && v.Missing == 0 {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("within %s never all right; the last time: %+v, %w", w.limit, v, context.Cause(ctx))
		case <-time.After(500 * time.Millisecond):
		}
	}
}
