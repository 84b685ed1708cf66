package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
)

// places are the directories in which images keep nodetool, besides
// $CASSANDRA_HOME/bin and PATH.
var places = []string{
	"/opt/cassandra/bin", "/opt/dse/bin", "/opt/bitnami/cassandra/bin", "/usr/bin", "/usr/local/bin",
	"/usr/local/apache-cassandra*/bin", "/opt/apache-cassandra*/bin", "/opt/hcd/bin", "/opt/elassandra*/bin",
}

// Find looks for nodetool in the image.
func Find(env func(string) string) (string, error) {
	var patterns []string
	if home := env("CASSANDRA_HOME"); home != "" {
		patterns = append(patterns, filepath.Join(home, "bin"))
	}
	patterns = append(patterns, filepath.SplitList(env("PATH"))...)
	patterns = append(patterns, places...)
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(pattern, "nodetool"))
		if err != nil {
			continue
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", errors.New("this image has no nodetool: not in $CASSANDRA_HOME/bin, PATH or the usual places")
}

// Nodetool runs the image's nodetool against the database of the pod.
type Nodetool struct {
	Env     func(string) string // os.Getenv
	Port    int                 // of JMX
	JMX     string              // directory with username and password, where they are needed
	Temp    string              // directory for the password file
	Timeout time.Duration       // for one run
	Secrets *event.Secrets
}

// tailLines is how many lines of a failed run are passed on.
const tailLines = 10

// Run runs a nodetool command and returns its output. An error has the last
// lines of the output in it.
func (n *Nodetool) Run(ctx context.Context, arguments ...string) (string, error) {
	what := "nodetool " + arguments[0]
	path, err := Find(n.Env)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	credentials, done, err := n.credentials()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer done()
	// bin/nodetool hands -D… to the JVM. Java releases since April 2022 read the
	// address rmi://[127.0.0.1] only this way, which Cassandra before 3.11.13,
	// 4.0.4 and 4.1 writes; to the others it does not matter. Medusa's own
	// default (nodetool_flags) is the same.
	args := []string{"-Dcom.sun.jndi.rmiURLParsing=legacy", "-h", "127.0.0.1", "-p", strconv.Itoa(n.Port)}
	args = append(append(args, credentials...), arguments...)
	ctx, cancel := context.WithTimeoutCause(ctx, n.Timeout, fmt.Errorf("no answer within %v", n.Timeout))
	defer cancel()
	var output strings.Builder
	tail := process.Tail{Size: tailLines}
	err = process.Run(ctx, process.Spec{Path: path, Args: args, Env: os.Environ()}, func(line string) {
		line = n.Secrets.Hide(line)
		output.WriteString(line + "\n")
		if !traced(line) {
			tail.Add(line)
		}
	})
	if err != nil {
		if tail.String() == "" {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return "", fmt.Errorf("%s: %w: %s", what, err, tail.String())
	}
	return output.String(), nil
}

// traced tells whether a line is of Java's trace, which says where in nodetool, and is longer
// than what is passed on; what went wrong stands before it.
func traced(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "at ") && strings.HasSuffix(line, ")") ||
		strings.HasPrefix(line, "... ") && strings.HasSuffix(line, " more") || line == "-- StackTrace --"
}

// credentials writes JMX credentials into a file for nodetool, so that they are
// in no command line; done removes it. Without the Secret there are none.
func (n *Nodetool) credentials() (args []string, done func(), err error) {
	nothing := func() {}
	read := func(name string) (string, error) {
		content, err := os.ReadFile(filepath.Join(n.JMX, name))
		return strings.TrimSpace(string(content)), err
	}
	user, err := read("username")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nothing, nil
	}
	if err != nil {
		return nil, nothing, fmt.Errorf("read the JMX user: %w", err)
	}
	password, err := read("password")
	if err != nil {
		return nil, nothing, fmt.Errorf("read the JMX password: %w", err)
	}
	n.Secrets.Learn(filepath.Join(n.JMX, "password"))
	// nodetool reads "user password" with any space between
	// (org.apache.cassandra.tools.NodeTool, readUserPasswordFromFile).
	if user == "" || password == "" || strings.ContainsAny(user+password, " \t\r\n") {
		return nil, nothing, errors.New("the JMX Secret has an empty username or password, or one with a space, which nodetool cannot read from a file")
	}
	file, err := os.CreateTemp(n.Temp, "jmx-*") // mode 0600
	if err != nil {
		return nil, nothing, fmt.Errorf("write the JMX password file: %w", err)
	}
	done = func() { _ = os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, "%s %s\n", user, password)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		done()
		return nil, nothing, fmt.Errorf("write the JMX password file: %w", err)
	}
	return []string{"-u", user, "-pwf", file.Name()}, done, nil
}
