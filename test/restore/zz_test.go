package restore

func init() {
	for i := range faults {
		if faults[i].name == "API server restarted" {
			faults[i].weight = 12
		}
	}
}
