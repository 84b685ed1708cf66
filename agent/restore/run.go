package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/python"
	"github.com/stategraft/stategraft/api/node"
)

// lock keeps two restores from one volume. Medusa inherits it, so that it is
// held for as long as anything still moves files. A file system without locks
// gives none.
func (c Config) lock() (*os.File, error) {
	path := filepath.Join(Dir(c.DataMount), "restore.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("prepare the data volume: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.New("another restore is running on this volume")
	}
	c.Log.Warn("the volume cannot be locked", "error", err.Error())
	return nil, nil
}

// env is Medusa's. CQL credentials are not needed while no database runs, and
// Medusa fails where their Secret is missing.
func (c Config) env() []string {
	change := map[string]string{
		"BACKUP_NAME": c.Backup, "RESTORE_KEY": c.id(), "RESTORE_MAPPING": "",
		"MEDUSA_TMP_DIR": c.Temp, "MEDUSA_CQL_K8S_SECRETS_PATH": "", "STATEGRAFT_CONTENTS_FILE": c.ContentsFile,
	}
	if c.remote() {
		if c.Source == "" {
			c.Source = c.PodName // a pod of the same name in another namespace
		}
		mapping, _ := json.Marshal(map[string]any{"in_place": false, "host_map": map[string]any{
			c.PodName: map[string]any{"source": []string{c.Source}, "seed": false},
		}}) // strings are always written
		change["RESTORE_MAPPING"], change["POD_NAME"] = string(mapping), c.PodName
	}
	if c.Source != "" {
		change["POD_IP"] = c.Source // what Medusa takes for the node's name
	}
	return c.Image.Env(change)
}

// precheck asks Medusa's own code what the storage holds.
func (j *job) precheck(ctx context.Context, ini string) (Report, error) {
	var report Report
	c := j.Config
	out := filepath.Join(c.Private, "precheck.json")
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("look the backup up: %w", err)
	}
	spec := c.Image.Run("-c", python.Precheck, ini, c.Backup, out)
	spec.Env = c.env()
	ctx, cancel := context.WithTimeoutCause(ctx, c.PrecheckLimit, fmt.Errorf("no answer from the storage within %v", c.PrecheckLimit))
	defer cancel()
	said := output{quiet: true}
	answered := meanwhile(ctx, func(ctx context.Context) { j.await(ctx, &said) })
	failed := process.Run(ctx, spec, func(line string) { said.line(c, line) })
	answered()
	tail := said.tail
	content, err := os.ReadFile(out)
	if failed == nil && err == nil {
		err = json.Unmarshal(content, &report)
	}
	switch {
	case failed != nil:
		return report, fmt.Errorf("look backup %s up: %w%s", c.Backup, failed, because(tail.Lines))
	case err != nil:
		return report, fmt.Errorf("look backup %s up: %w%s", c.Backup, err, because(tail.Lines))
	}
	report.Error = c.Secrets.Hide(report.Error)
	return report, nil
}

// medusa runs Medusa's restore. When all is downloaded and nothing is changed yet
// it asks, and goes on only when begin has given no error.
func (j *job) medusa(ctx context.Context, ini string, begin func(context.Context) error) error {
	asks, ask, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start Medusa: %w", err)
	}
	answer, answers, err := os.Pipe()
	if err != nil {
		asks.Close()
		ask.Close()
		return fmt.Errorf("start Medusa: %w", err)
	}
	defer answers.Close()
	spec := j.Image.Run("-c", python.Restore, ini, j.id(), "3", "4")
	spec.Env = j.env()
	spec.Extra = []*os.File{ask, answer}
	if j.lock != nil {
		spec.Extra = append(spec.Extra, j.lock)
	}
	ctx, stop := context.WithCancel(ctx)
	j.phase(node.Downloading, 0)
	var out output
	downloaded := meanwhile(ctx, func(ctx context.Context) { j.watch(ctx, &out) })
	defer downloaded()
	ended := make(chan error, 1)
	go func() {
		err := process.Run(ctx, spec, func(line string) { out.line(j.Config, line) })
		for _, end := range []*os.File{ask, answer, asks} { // nobody asks any more
			end.Close()
		}
		ended <- err
	}()
	defer func() { stop(); <-ended }() // whatever happens here, it does not go on by itself
	refused := j.answer(ctx, asks, answers, downloaded, begin)
	err = <-ended
	ended <- nil
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: the next start begins anew")
	case refused != nil:
		return refused
	case err != nil:
		said := because(out.tail.Lines)
		return medusaFailed(said, out.last, fmt.Errorf("the run of Medusa failed: %w%s", err, downloading(said, out.last)))
	}
	return nil
}

// answer waits until Medusa asks, and answers it. Without an answer it ends.
func (j *job) answer(ctx context.Context, asks, answers *os.File, downloaded func(), begin func(context.Context) error) error {
	var one [1]byte
	n, _ := asks.Read(one[:])
	downloaded()
	if n == 0 {
		return nil // it has ended
	}
	if err := begin(ctx); err != nil {
		answers.Close()
		return err
	}
	_, err := answers.WriteString("go")
	answers.Close()
	if err != nil {
		return fmt.Errorf("answer Medusa: %w", err)
	}
	return nil
}

// output is what Medusa prints. One goroutine writes it; who asks for the complaint
// may be another.
type output struct {
	tail  process.Tail
	last  string // error that it logged
	quiet bool   // its lines are not logged

	mutex      sync.Mutex
	complained string // last warning, error or exception
	when       time.Time
}

func (o *output) line(c Config, line string) {
	o.tail.Size = 20
	line = c.Secrets.Hide(line)
	o.tail.Add(line)
	level, message := medusa.Line(line)
	number := slog.LevelInfo
	switch {
	case level == "ERROR" || level == "CRITICAL":
		number, o.last = slog.LevelError, message
		o.complain(message)
	case level == "WARNING" || exception.MatchString(line):
		o.complain(message)
	}
	if !o.quiet {
		c.Log.Log(context.Background(), number, message, "from", "medusa")
	}
}

func (o *output) complain(message string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.complained, o.when = message, time.Now()
}

func (o *output) complaint() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.complained
}

// forget drops a complaint from before a time.
func (o *output) forget(before time.Time) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.when.Before(before) {
		o.complained = ""
	}
}

// exception is the last line of a Python traceback.
var exception = regexp.MustCompile(`^[A-Za-z_][\w.]*(Error|Exception|Exit)\b.*`)

// because picks the line that says why a Python program failed: the last
// exception, but not the one that only says that trying has ended.
func because(lines []string) string {
	reason := ""
	for _, line := range lines {
		if exception.MatchString(line) && (reason == "" || !strings.Contains(line, "RetryError")) {
			reason = line
		}
	}
	if reason == "" && len(lines) > 0 {
		_, reason = medusa.Line(lines[len(lines)-1])
	}
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// downloading replaces the reason where Medusa says of whatever keeps an object
// from being downloaded, a full volume too, that the object does not exist; what
// it logged before is true (medusa/storage/s3_base_storage.py).
func downloading(reason, logged string) string {
	if logged != "" && strings.Contains(reason, "ObjectDoesNotExistError") {
		return ": " + logged
	}
	return reason
}
