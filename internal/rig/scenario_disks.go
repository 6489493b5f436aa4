package rig

func diskScenarios() []Scenario { return nil }
