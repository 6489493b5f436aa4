package rig

func versionScenarios() []Scenario { return nil }
