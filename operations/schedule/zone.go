package schedule

import (
	"fmt"
	"strings"
	"time"

	// The controller's image need not have a time zone database, and a schedule must
	// not mean another time, or nothing, by what an image has.
	_ "time/tzdata"
)

// Zone is a time zone of the IANA database by its name; "" is UTC. Local is refused:
// it is what the machine of the controller has.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("timeZone %q is not known: write a name such as Europe/Berlin or Etc/UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("timeZone %q is not known: write a name such as Europe/Berlin or Etc/UTC", name)
	}
	return zone, nil
}
