import { mount } from 'svelte';

// First, before anything else looks at the address.
import './lib/brought';

import './app.css';
import App from './App.svelte';

const target = document.getElementById('app');
if (target) mount(App, { target });
