package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// Ports of Cloudburst; an executor's are plus its thread, all but the scheduler's
// REP sockets are PULL.
var (
	executorPorts    = []int{4000, 4010, 4020, 4030, 4040}
	schedulerPulls   = []int{schedulerStatus, schedulerUpdate, 5010, 5011, 6460, 6760}
	schedulerReplies = []int{5001, 5002, 5004, 5005, 5006} // 5000 and 5003 have answers of their own
)

const (
	schedulerConnect = 5000
	schedulerList    = 5003
	schedulerStatus  = 5007
	schedulerUpdate  = 5008

	executorDepart = 4050

	managementUtilisation = 7003
	managementSchedulers  = 7004
	managementDeparted    = 7005
	managementStatistics  = 7006
)

const (
	cloudburstConfig = "conf/cloudburst-config.yml"
	executorScript   = "cloudburst/server/executor/server.py"
	schedulerScript  = "cloudburst/server/scheduler/server.py"

	cloudburstReport = 5 * time.Second
	schedulersWait   = 500 * time.Millisecond
	functionsKey     = "funcs/index-allfuncs"
)

// genericError is a GenericResponse without success.
var genericError = appendNumber(nil, 2, 1)

var (
	errScript   = errors.New("this python3 runs " + executorScript + " and " + schedulerScript + " only")
	errDeparted = errors.New("the executor has departed") // with code 1, as the real one
)

// python stands in for the interpreter: the script is known by its path.
func python(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) == 0 {
		return errScript
	}
	file := cloudburstConfig
	if len(args) > 1 {
		file = args[1]
	}
	switch {
	case strings.HasSuffix(args[0], executorScript):
		return executor(ctx, file, log)
	case strings.HasSuffix(args[0], schedulerScript):
		return scheduler(ctx, file, log)
	}
	return errScript
}

// management is None, and so local mode, where the file has NULL without quotes.
func management(c conf) string {
	if m := c.at("mgmt_ip"); !m.null() {
		return m.text()
	}
	return ""
}

// threadStatus is a ThreadStatus.
func threadStatus(ip string, tid int, running bool) []byte {
	b := appendText(nil, 1, ip)
	if tid > 0 {
		b = appendNumber(b, 2, uint64(tid))
	}
	if running {
		b = appendNumber(b, 5, 1)
	}
	return b
}

func executor(ctx context.Context, file string, log *slog.Logger) error {
	c, err := load(file, true)
	if err != nil {
		return err
	}
	ip, mgmt := c.at("ip").text(), management(c)
	tid, schedulers := c.at("executor").at("thread_id").number(), c.at("executor").at("scheduler_ips")
	if schedulers.null() {
		return fmt.Errorf("TypeError: %s is None", schedulers.path)
	}
	s := newSockets()
	defer s.close()
	for _, port := range executorPorts {
		if err := s.pull(endpoint("*", port+tid)); err != nil {
			return err
		}
	}
	depart := endpoint("*", executorDepart+tid)
	own := requests() + "/get_" + strconv.Itoa(tid)
	if err := s.pull(depart); err != nil {
		return err
	}
	if mgmt != "" {
		if err := s.pull(own, requests()+"/put_"+strconv.Itoa(tid)); err != nil {
			return err
		}
	}
	running, answered := true, false
	report := func() {
		for _, host := range schedulers.texts() {
			s.push(ctx, endpoint(host, schedulerStatus), threadStatus(ip, tid, running))
		}
	}
	report()
	tick := time.NewTicker(period(cloudburstReport))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.inbox:
			switch m.at {
			case depart:
				running = false
				report()
			case own:
				if !answered {
					log.Info("the cache answers")
				}
				answered = true
			}
		case <-tick.C:
			report()
			if mgmt == "" {
				continue
			}
			s.push(ctx, endpoint(mgmt, managementStatistics), nil)
			s.push(ctx, endpoint(mgmt, managementUtilisation), threadStatus(ip, tid, running))
			if !running {
				s.push(ctx, endpoint(mgmt, managementDeparted), []byte(ip))
				_ = s.pushes[endpoint(mgmt, managementDeparted)].Flush(ctx)
				return errDeparted
			}
			if !answered {
				// A real one asks when it runs a function; this one once, to show that it can.
				r := wire.KeyRequest{Kind: wire.Get, Tuples: []wire.Tuple{{Key: functionsKey}}, ResponseAddress: own, ID: "0"}
				s.push(ctx, requests()+"/get", r.Append(nil))
			}
		}
	}
}

func scheduler(ctx context.Context, file string, log *slog.Logger) error {
	c, err := load(file, true)
	if err != nil {
		return err
	}
	ip, mgmt := c.at("ip").text(), management(c)
	routing := c.at("scheduler").at("routing_address").text()
	c.at("scheduler").at("policy").text()
	s := newSockets()
	defer s.close()
	for _, port := range schedulerPulls {
		if err := s.pull(endpoint("*", port)); err != nil {
			return err
		}
	}
	for _, port := range schedulerReplies {
		if err := s.reply(endpoint("*", port), func([]byte) []byte { return genericError }); err != nil {
			return err
		}
	}
	if err := s.reply(endpoint("*", schedulerConnect), func([]byte) []byte { return []byte(routing) }); err != nil {
		return err
	}
	if err := s.reply(endpoint("*", schedulerList), func([]byte) []byte { return nil }); err != nil {
		return err
	}
	var seen executors
	stop, err := stats(func() any { return seen.list() })
	if err != nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(period(cloudburstReport))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.inbox:
			if m.at == endpoint("*", schedulerStatus) {
				seen.note(m.body, log)
			}
		case <-tick.C:
			if mgmt == "" {
				continue
			}
			for _, other := range otherSchedulers(ctx, mgmt, log) {
				if other != ip {
					s.push(ctx, endpoint(other, schedulerUpdate), nil)
				}
			}
			s.push(ctx, endpoint(mgmt, managementStatistics), nil)
		}
	}
}

// otherSchedulers asks the management server, as long as the real one waits.
func otherSchedulers(ctx context.Context, mgmt string, log *slog.Logger) []string {
	ctx, cancel := context.WithTimeout(ctx, schedulersWait)
	defer cancel()
	b, err := zmtp.Ask(ctx, endpoint(mgmt, managementSchedulers), nil)
	if err != nil {
		log.Info("no answer from the management server", "err", err)
		return nil
	}
	var all []string
	for len(b) > 0 {
		_, _, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		v, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			break
		}
		all = append(all, string(v))
		b = b[n+m:]
	}
	log.Info("schedulers", "all", all)
	return all
}

// executors are the threads that have sent a status, ip:tid.
type executors struct {
	mu  sync.Mutex
	all map[string]bool
}

func (e *executors) note(status []byte, log *slog.Logger) {
	var ip string
	var tid uint64
	for len(status) > 0 {
		number, kind, n := protowire.ConsumeTag(status)
		if n < 0 {
			return
		}
		status = status[n:]
		size := protowire.ConsumeFieldValue(number, kind, status)
		if size < 0 {
			return
		}
		switch number {
		case 1:
			v, _ := protowire.ConsumeBytes(status)
			ip = string(v)
		case 2:
			tid, _ = protowire.ConsumeVarint(status)
		}
		status = status[size:]
	}
	name := ip + ":" + strconv.FormatUint(tid, 10)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.all[name] {
		log.Info("an executor", "thread", name)
	}
	if e.all == nil {
		e.all = map[string]bool{}
	}
	e.all[name] = true
}

func (e *executors) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.all))
}
